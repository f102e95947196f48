// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled with other.cpp, each with one header of ringlet put before its first line.
int other();

int main() { return other(); }
