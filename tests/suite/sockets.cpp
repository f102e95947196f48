// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../../examples/07_own_transport.hpp"
#include "suite.hpp"

RINGLET_SUITE(tests::processes<sockets>, tests::threads<sockets>);
