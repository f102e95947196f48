// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include "ringlet/communicator.hpp"
#include "ringlet/error.hpp"
#include "ringlet/store.hpp"
#include "ringlet/transport.hpp"

namespace ringlet {

/// One of the ways in which a run divides its work, and into how many parts.
struct axis {
  std::string_view name;  ///< must outlive the mesh: a literal
  int degree;             ///< at least 1
};

/// The name of an axis, or what a function takes for one.
template <class N>
concept axis_name = std::convertible_to<N, std::string_view>;

/// Ranks laid out along several axes at once, whose degrees multiply:
///
///     constexpr ringlet::mesh run{{{"data", 2}, {"pipeline", 2}, {"tensor", 4}}};  // 16 ranks
///
/// Along the last axis neighbours in number are neighbours: it is the one for the fastest link. Functions that take
/// names of axes take one or several, in any order; all are constant expressions, and an axis that there is not, or a
/// rank out of range, is no constant expression, or throws `error(errc::invalid_argument)`.
/// @tparam Axes how many axes
template <std::size_t Axes>
class mesh {
 public:
  /// A rank's place along each axis, in the order of the axes.
  using coordinate = std::array<int, Axes>;

  /// @throws error(errc::invalid_argument) for a degree below 1, a name that comes twice, more ranks than an int can
  ///   count
  constexpr mesh(axis const (&axes)[Axes]) {
    for (std::size_t i = Axes; i-- > 0;) {
      axes_[i] = axes[i];
      stride_[i] = size_;
      if (axes[i].degree < 1) degree_below_1(axes[i]);
      if (axes[i].degree > std::numeric_limits<int>::max() / size_) too_many_ranks();
      size_ *= axes[i].degree;
      for (std::size_t j = i + 1; j < Axes; ++j)
        if (axes[j].name == axes[i].name) axis_comes_twice(axes[i]);
    }
  }

  /// How many ranks there are: the product of the degrees.
  constexpr int size() const { return size_; }
  /// The axes as they were given.
  constexpr std::array<axis, Axes> const& axes() const { return axes_; }

  /// Where a rank is.
  constexpr coordinate coordinates(int rank) const {
    check(rank, size_);
    coordinate at{};
    for (std::size_t i = 0; i < Axes; ++i) at[i] = rank / stride_[i] % axes_[i].degree;
    return at;
  }
  /// Who is there.
  constexpr int rank(coordinate const& at) const {
    int rank = 0;
    for (std::size_t i = 0; i < Axes; ++i) check(at[i], axes_[i].degree), rank += at[i] * stride_[i];
    return rank;
  }

  /// How many ranks are in one part along these axes.
  constexpr int degree(axis_name auto const&... names) const { return walk(named({names...}), coordinate{}).size; }
  /// A rank's place in its part, 0 <= place < degree: its key for `communicator::split`.
  constexpr int place(int rank, axis_name auto const&... names) const {
    return walk(named({names...}), coordinates(rank)).at;
  }
  /// The number of a rank's part, the same for all ranks that differ along these axes only: its color for
  /// `communicator::split`.
  constexpr int color(int rank, axis_name auto const&... names) const {
    selected others = named({names...});
    for (bool& is : others) is = !is;
    return walk(others, coordinates(rank)).at;
  }
  /// The rank at some place of a rank's part.
  constexpr int member(int rank, int place, axis_name auto const&... names) const {
    selected const along = named({names...});
    coordinate at = coordinates(rank);
    check(place, walk(along, at).size);
    for (std::size_t i = Axes; i-- > 0;)
      if (along[i]) at[i] = place % axes_[i].degree, place /= axes_[i].degree;
    return this->rank(at);
  }

  /// The mesh in words: "data 2 x pipeline 2 x tensor 4".
  std::string describe() const {
    std::string words;
    for (axis const& a : axes_)
      words += (words.empty() ? "" : " x ") + std::string(a.name) + " " + std::to_string(a.degree);
    return words;
  }
  /// The names of axes in the order of the mesh, with a + between them, which is the same for every order that they are
  /// given in.
  std::string names(axis_name auto const&... names) const {
    selected const along = named({names...});
    std::string words;
    for (std::size_t i = 0; i < Axes; ++i)
      if (along[i]) words += (words.empty() ? "" : "+") + std::string(axes_[i].name);
    return words;
  }

 private:
  using selected = std::array<bool, Axes>;
  struct walked {
    int at, size;  // of all places along some axes
  };

  template <std::size_t N>
  constexpr selected named(std::string_view const (&names)[N]) const {
    selected along{};
    for (std::string_view name : names) {
      std::size_t i = 0;
      while (i < Axes && axes_[i].name != name) ++i;
      if (i == Axes) no_such_axis(name);
      if (along[i]) axis_comes_twice(axes_[i]);
      along[i] = true;
    }
    return along;
  }
  constexpr walked walk(selected const& along, coordinate const& at) const {
    walked w{0, 1};
    for (std::size_t i = 0; i < Axes; ++i)
      if (along[i]) w = {w.at * axes_[i].degree + at[i], w.size * axes_[i].degree};
    return w;
  }
  constexpr void check(int i, int end) const {
    if (i < 0 || i >= end) out_of_range(i, end);
  }

  // What is no constant expression, by a name that says why.
  [[noreturn]] static void refuse(std::string const& why) { throw error(errc::invalid_argument, why); }
  [[noreturn]] static void degree_below_1(axis const& a) {
    refuse("axis " + std::string(a.name) + " has degree " + std::to_string(a.degree) + ", expected at least 1");
  }
  [[noreturn]] static void axis_comes_twice(axis const& a) { refuse("axis " + std::string(a.name) + " comes twice"); }
  [[noreturn]] static void too_many_ranks() { refuse("the degrees multiply to more ranks than an int can count"); }
  [[noreturn]] void out_of_range(int i, int end) const {
    refuse(std::to_string(i) + " is not a rank or a place among " + std::to_string(end) + " in the mesh " + describe());
  }
  [[noreturn]] void no_such_axis(std::string_view name) const {
    refuse("there is no axis " + std::string(name) + " in the mesh " + describe());
  }

  std::array<axis, Axes> axes_{};
  coordinate stride_{};
  int size_ = 1;
};

/// The ranks of a run that are in this rank's part along one or several axes, for `connect`. So each axis has a
/// transport of its own, known when compiling:
///
///     auto tensor = ringlet::connect<ringlet::shared_memory>(ringlet::along(who, run, "tensor"));
///     auto data = ringlet::connect<ringlet::fabric>(ringlet::along(who, run, "data"));
///
/// Ranks and errors of such a communicator are numbered as in the part; `mesh::member` says who that is among all. It
/// leaves keys under "along/NAMES/" in the store: to connect the same axes twice, give a `prefixed` store.
/// @tparam S the store that the bootstrap of all ranks has
template <store S>
class along {
 public:
  /// @param who this rank among all
  /// @param m whose degrees multiply to the number of ranks
  /// @param names of the axes
  /// @throws error(errc::invalid_argument) when they do not, or there is no such axis
  template <std::size_t Axes>
  along(bootstrap<S> const& who, mesh<Axes> const& m, axis_name auto const&... names)
      : rank_(m.place(checked(who, m), names...)),
        size_(m.degree(names...)),
        store_(who.store, "along/" + m.names(names...) + "/" + std::to_string(m.color(who.rank, names...)) + "/") {}

  /// What to connect with: this rank among those of its part. It points into this object.
  ringlet::bootstrap<prefixed<S>> bootstrap() { return {rank_, size_, store_}; }

 private:
  template <std::size_t Axes>
  static int checked(ringlet::bootstrap<S> const& who, mesh<Axes> const& m) {
    if (who.size != m.size())
      throw error(errc::invalid_argument, "the degrees of the mesh " + m.describe() + " multiply to " +
                                              std::to_string(m.size()) + " ranks, but there are " +
                                              std::to_string(who.size) + ": give degrees that multiply to as many");
    return who.rank;
  }

  int rank_, size_;
  prefixed<S> store_;
};

/// Connects this rank to the others of its part; a collective of the part. As `connect` with a bootstrap.
template <transport X, int Size = dynamic_size, store S>
communicator<X, Size> connect(along<S> part, connect_options<X> const& options = {}) {
  return connect<X, Size>(part.bootstrap(), options);
}

}  // namespace ringlet
