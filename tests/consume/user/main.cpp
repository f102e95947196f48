// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A user's program. It prints the version it was built with.
#include <cstdio>

#include "ringlet/ringlet.hpp"

int main() { std::printf("ringlet %d\n", RINGLET_VERSION); }
