// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ringlet/all_gather.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/collective_operation.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/element.hpp"
#include "ringlet/error.hpp"
#include "ringlet/reduce_scatter.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/schedule.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

/// A model that no rank holds whole: of each layer's weights and gradient every rank keeps its chunk. Weights are
/// gathered for use, the next layer's while this one computes; gradients are reduced and scattered; an optimizer works
/// on chunks, so its state is never whole, either (Rajbhandari et al., "ZeRO", 2019, stage 3; Zhao et al., "PyTorch
/// FSDP", 2023).
///
///     model.gather(0);
///     for (std::size_t i = 0; i < model.layers(); ++i) {
///       if (i + 1 < model.layers()) model.gather(i + 1);  // starts
///       x = forward(model.weights(i), x);                 // waits; polls now and then
///     }
///
/// and backward likewise, from the last layer to the first, with `auto g = model.gradient(i)`, which is written or
/// added to, and `model.scatter(i)`. Then `wait()`, a step of the optimizer from `gradients()` to `parameters()`, and a
/// fill of zeros for `gradients()`.
///
/// With n ranks, a rank holds 2/n of the model and room for four whole layers: `bytes()`. A step of one forward and one
/// backward pass sends 3 (n-1)/n of the model. Exchanges have no thread; they get on in `poll()`, and in whatever
/// waits. They are collectives: all ranks make the same calls of `gather` and `scatter` in the same order. One thread
/// uses it, as it uses the communicator; it must go before that does.
/// @tparam T the element
/// @tparam X the transport
/// @tparam Op the operator that reduces gradients, with its policies
template <element T, transport X, class Op = sum>
class sharded {
 public:
  /// A collective: all ranks give the same. Most users call `make_sharded`.
  /// @param counts elements of each layer
  /// @throws error(errc::out_of_memory, errc::mismatch) as `communicator::allocate` does
  template <int Size>
  sharded(communicator<X, Size>& comm, std::span<std::size_t const> counts, Op op = {})
      : session_(comm.session()), op_(op), memory_(comm.template allocate<T>(lay_out(counts))) {}
  sharded(sharded const&) = delete;
  /// An exchange that is not finished is cancelled, on all ranks.
  ~sharded() = default;

  /// How many layers there are.
  std::size_t layers() const { return layers_.size(); }
  /// How layer `i` is cut: chunk r is rank r's.
  /// @throws error(errc::invalid_argument) when there is no such layer, as everything that takes a layer does
  partition chunks(std::size_t i) const { return checked(i).chunks; }
  /// Bytes of memory for all that: chunks of weights and gradients, and four of the largest layers.
  std::size_t bytes() const { return memory_.size() * sizeof(T); }

  /// This rank's chunks of all layers' weights, side by side; to be changed while nothing is under way.
  std::span<T> parameters() const { return {memory_.data(), held_}; }
  /// This rank's chunks of all layers' gradients, side by side in the same order: the sum of all that was scattered and
  /// waited for since the caller last filled it with zeros.
  std::span<T> gradients() const { return {memory_.data() + room_, held_}; }
  /// This rank's chunk of one layer's weights, a part of `parameters()`.
  std::span<T> chunk(std::size_t i) const { return parameters().subspan(checked(i).offset, own(i)); }

  /// Keeps this rank's chunk of a layer's weights. Not a collective.
  /// @param whole all of the layer's weights
  /// @throws error(errc::invalid_argument) when it has another number of them
  void assign(std::size_t i, std::span<T const> whole) {
    if (whole.size() != checked(i).chunks.count)
      throw error(errc::invalid_argument,
                  detail::words("layer %zu has %zu weights, but %zu are given: give all of them", i,
                                layers_[i].chunks.count, whole.size()));
    auto const mine = whole.subspan(layers_[i].chunks.offset(rank()), own(i));
    std::copy(mine.begin(), mine.end(), chunk(i).begin());
  }

  /// Starts to gather a layer's weights, in place of those that were gathered before the last ones.
  /// @throws error also what the start of an operation, and the wait for an earlier one, throws
  void gather(std::size_t i) {
    auto const mine = chunk(i);
    gathering& g = gathers_[turn_of_gathers_ ^= 1];
    if (g.exchange) g.exchange->wait();
    T* const to = room_for(turn_of_gathers_);
    g.layer = i;
    g.exchange.emplace(session_, mine.data(), mine.size(), to, layers_[i].chunks.count, keep{});
  }
  /// Waits for a layer's weights. They stay until `gather` has been called twice more.
  /// @throws error(errc::invalid_argument) when `gather(i)` is not one of its last two calls
  /// @throws error also what `collective_operation::wait` throws
  std::span<T const> weights(std::size_t i) {
    for (int slot : {turn_of_gathers_, turn_of_gathers_ ^ 1})
      if (gathering& g = gathers_[slot]; g.exchange && g.layer == i) {
        g.exchange->wait();
        return {room_for(slot), layers_[i].chunks.count};
      }
    throw error(errc::invalid_argument,
                detail::words("layer %zu is not gathered: gather(%zu) must be one of the last two gathers", i, i));
  }

  /// Memory for a layer's gradient, zeroed, until `scatter`. It may have to wait for the scatter before the last.
  std::span<T> gradient(std::size_t i) {
    std::size_t const count = checked(i).chunks.count;
    finish(turn_of_scatters_ ^= 1);
    scatters_[turn_of_scatters_].layer = i;
    T* const at = room_for(2 + turn_of_scatters_);
    std::fill_n(at, count, T{});
    return {at, count};
  }
  /// Starts to reduce a layer's gradient, of which each rank gets its chunk: it is added to `gradients()`.
  /// @throws error(errc::invalid_argument) when `gradient(i)` was not the last call of `gradient`, or has been
  ///   scattered
  void scatter(std::size_t i) {
    partition const chunks = checked(i).chunks;
    scattering& s = scatters_[turn_of_scatters_];
    if (s.exchange || s.layer != i)
      throw error(errc::invalid_argument,
                  detail::words("there is no gradient of layer %zu to scatter: write it to gradient(%zu) first", i, i));
    T* const at = room_for(2 + turn_of_scatters_);
    s.exchange.emplace(session_, at, chunks.count, at + chunks.offset(rank()), own(i), op_);
  }

  /// Goes as far as it can without waiting. `ready`: nothing is under way. `failed`: what waits throws the reason.
  status poll() noexcept {
    status now = status::ready;
    auto const poll = [&](auto& slot) {
      if (!slot.exchange || now == status::failed) return;
      if (status const its = slot.exchange->poll(); its != status::ready) now = its;
    };
    for (gathering& g : gathers_) poll(g);
    for (scattering& s : scatters_) poll(s);
    return now;
  }
  /// Waits until all that was scattered is in `gradients()`.
  /// @throws error what `collective_operation::wait` throws
  void wait() {
    finish(turn_of_scatters_ ^ 1);
    finish(turn_of_scatters_);
  }

 private:
  struct layer {
    partition chunks;
    std::size_t offset;  // of this rank's chunk among all its chunks
  };
  // What is known of the number of ranks when compiling would save nothing here.
  template <collective What, class How>
  struct slot {
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    std::size_t layer = none;
    std::optional<collective_operation<X, dynamic_size, What, T, How>> exchange;
  };
  using gathering = slot<collective::all_gather, keep>;
  using scattering = slot<collective::reduce_scatter, Op>;

  // Places everything, and says how many elements it takes: as many on all ranks, as `allocate` wants it.
  std::size_t lay_out(std::span<std::size_t const> counts) {
    for (std::size_t count : counts) {
      layers_.push_back({{count, static_cast<std::size_t>(session_.size)}, held_});
      held_ += layers_.back().chunks.length(rank()), room_ += layers_.back().chunks.longest();
      largest_ = std::max(largest_, count);
    }
    return 2 * room_ + 4 * largest_;
  }
  std::size_t rank() const { return static_cast<std::size_t>(session_.rank); }
  std::size_t own(std::size_t i) const { return layers_[i].chunks.length(rank()); }
  T* room_for(int slot) const { return memory_.data() + 2 * room_ + static_cast<std::size_t>(slot) * largest_; }
  layer const& checked(std::size_t i) const {
    if (i >= layers())
      throw error(errc::invalid_argument, detail::words("there is no layer %zu: this model has %zu", i, layers()));
    return layers_[i];
  }
  // What a scatter has left at this rank's chunk of the buffer goes to the other gradients.
  void finish(int turn) {
    scattering& s = scatters_[turn];
    if (!s.exchange) return;
    s.exchange->wait();
    T const* const from = room_for(2 + turn) + layers_[s.layer].chunks.offset(rank());
    T* const to = gradients().data() + layers_[s.layer].offset;
    for (std::size_t e = 0; e < own(s.layer); ++e) to[e] = detail::add(to[e], from[e]);
    s.exchange.reset(), s.layer = scattering::none;
  }

  detail::session<X>& session_;
  Op op_;
  std::vector<layer> layers_;
  std::size_t held_ = 0, room_ = 0,
              largest_ = 0;  // elements: this rank's chunks, the longest chunks, the largest layer
  allocation<T, X> memory_;
  gathering gathers_[2];
  scattering scatters_[2];
  int turn_of_gathers_ = 0, turn_of_scatters_ = 0;  // the slot that was taken last
};

/// Makes a sharded model; a collective: see `sharded`.
/// @tparam T the element
/// @param comm the communicator
/// @param counts elements of each layer
/// @param op the operator that reduces gradients, with its policies
template <element T, class X, int Size, class Op = sum>
[[nodiscard]] sharded<T, X, Op> make_sharded(communicator<X, Size>& comm, std::span<std::size_t const> counts,
                                             Op op = {}) {
  return sharded<T, X, Op>(comm, counts, op);
}

}  // namespace ringlet
