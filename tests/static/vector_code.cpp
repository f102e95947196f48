// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops of the host, for vector_code.py to look at what the compiler makes of them.
#include "ringlet/combine.hpp"
#include "ringlet/element.hpp"
#include "ringlet/reduction.hpp"

using namespace ringlet;

template <class T, class Op>
void combine_in_place(typename arithmetic<T, Op>::wire* wire, T* result, std::size_t n, Op op) {
  combine(this_thread{}, wire, result, wire, result, n, arithmetic<T, Op>(op, 2), true, true);
}

void all(void* p, std::size_t n) {
  auto const at = [p]<class T>(T) { return static_cast<T*>(p); };
  combine_in_place(at(float{}), at(float{}), n, sum{});
  combine_in_place(at(float{}), at(float{}), n, product{});
  combine_in_place(at(float{}), at(float{}), n, minimum{});
  combine_in_place(at(double{}), at(double{}), n, product{});
  combine_in_place(at(int{}), at(int{}), n, maximum{});
  combine_in_place(at(char{}), at(char{}), n, bit_or{});
  combine_in_place(at(float16{}), at(float16{}), n, product{});
  combine_in_place(at(bfloat16{}), at(bfloat16{}), n, maximum{});
  combine_in_place(at(bfloat16{}), at(float{}), n, travel_as<bfloat16>(sum{}));
}
