// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: complex numbers have no largest
#include <complex>

#include "ringlet/combine.hpp"

#if defined(RINGLET_CONTROL)
using number = float;
#else
using number = std::complex<float>;
#endif
number const value = ringlet::arithmetic<number, ringlet::maximum>({}, 2).add(1, 0);
