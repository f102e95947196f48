// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
int other();

int other() { return 0; }
