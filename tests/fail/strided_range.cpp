// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error: contiguous
#include <cstddef>
#include <vector>

#include "ringlet/all_reduce.hpp"
#include "ringlet/transport/in_process.hpp"

// C21: the column of a matrix is no buffer.
struct column {
  struct iterator {
    float* at;
    float& operator*() const { return *at; }
    iterator& operator++() { return at += 2, *this; }
    bool operator!=(iterator const& other) const { return at != other.at; }
  };
  iterator begin() const { return {first}; }
  iterator end() const { return {first + 4}; }
  std::size_t size() const { return 2; }
  float* first;
};

void wrong(ringlet::communicator<ringlet::in_process>& comm, float* matrix) {
#ifdef RINGLET_CONTROL
  ringlet::all_reduce(comm, std::vector<float>{matrix[0], matrix[2]});
#else
  ringlet::all_reduce(comm, column{matrix});
#endif
}
