// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled with headers of ringlet put before its first line: with one, and then, together with other.cpp, with all.
int other();

int main() { return other(); }
