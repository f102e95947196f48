// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "measure.hpp"
#include "operators.hpp"
#include "ringlet/element.hpp"

namespace perf {

/// An element type that ringlet-perf can measure.
struct element_entry {
  char const* name;  ///< for -d
  std::size_t bytes;
  void (*measure)(any_communicator&, options const&, char const* type, report&);
  bool (*builds)(options const&);
};
template <class T>
constexpr element_entry element(char const* name) {
  return {name, sizeof(T), measure_type<T>, builds<T>};
}

/// By nccl-tests' names. Each has its line, too, in one of the files that instantiate `measure_type`.
inline constexpr element_entry elements[] = {
    element<std::int8_t>("int8"),
    element<std::uint8_t>("uint8"),
    element<std::int32_t>("int32"),
    element<std::uint32_t>("uint32"),
    element<std::int64_t>("int64"),
    element<std::uint64_t>("uint64"),
    element<ringlet::float16>("half"),
    element<float>("float"),
    element<double>("double"),
    element<ringlet::bfloat16>("bfloat16"),
    element<ringlet::float8_e4m3>("f8e4m3"),
    element<ringlet::float8_e5m2>("f8e5m2"),
};

}  // namespace perf
