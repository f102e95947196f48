// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The arithmetic of a transformer over bytes (Vaswani et al., "Attention is all you need", 2017; norms come first, as
// in Radford et al., "Language models are unsupervised multitask learners", 2019): forward as in the textbook, backward
// by hand. It knows nothing of ranks, but that attention and MLP may be cut into parts whose results add up (Shoeybi et
// al., "Megatron-LM", 2019): first weights by columns, last ones by rows, so each has one sum forward and one backward.

#include <Eigen/Dense>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

using real = double;  // so that difference quotients can check it
using matrix = Eigen::Matrix<real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;  // a row for each token
using column = Eigen::Matrix<real, Eigen::Dynamic, 1>;
using weights_view = Eigen::Map<matrix const>;
using gradient_view = Eigen::Map<matrix>;
using tokens = std::span<unsigned char const>;

struct shape {
  int blocks, width, heads, inner, length;  // of the model; `length` tokens are looked at together
  int parts = 1, part = 0;                  // into how many attention and MLP are cut, and which this is
  static constexpr int vocabulary = 256;
};

// What goes through the model at once, and what a layer needs besides weights.
struct passage {
  tokens read, next;                 // the token after each
  real share;                        // of this passage's tokens in the loss of a step: 1 / all tokens
  std::function<void(matrix&)> sum;  // adds up a matrix over all parts
  real loss = 0;                     // in the end
};

// One matrix of a layer's parameters: where it stands in them, and where in the whole, if that is cut.
struct parameter {
  int rows, columns;
  real deviation = 0;  // of the values at the start; 0: they are `value`
  real value = 0;
  int first_row = 0, first_column = 0;
  std::size_t offset = 0;

  std::size_t count() const { return static_cast<std::size_t>(rows * columns); }
  weights_view of(real const* layer) const { return {layer + offset, rows, columns}; }
  gradient_view of(real* layer) const { return {layer + offset, rows, columns}; }
};

// A layer for one passage: it keeps what it needs for the way back.
class layer {
 public:
  virtual ~layer() = default;
  virtual matrix forward(real const* w, matrix const& x, passage& p) = 0;
  // From the gradient of its output to that of its input. Adds to those of its weights.
  virtual matrix backward(real const* w, real* g, matrix const& dy, passage& p) = 0;

  std::size_t count() const { return count_; }
  // The same values, however the model is cut: each is drawn by its place in the whole.
  void initialize(real* w, int number) const {
    std::uint64_t matrix_number = 0;
    for (parameter const* p : parameters_) {
      std::uint64_t const name = (static_cast<std::uint64_t>(number) << 8 | matrix_number++) << 40;
      auto of = p->of(w);
      for (int i = 0; i < p->rows; ++i)
        for (int j = 0; j < p->columns; ++j) {
          auto const place =
              static_cast<std::uint64_t>(p->first_row + i) << 20 | static_cast<unsigned>(p->first_column + j);
          of(i, j) = p->deviation == 0 ? p->value : p->deviation * std::sqrt(3.0) * uniform(name + place);
        }
    }
  }

 protected:
  void add(parameter& p) {
    p.offset = count_, count_ += p.count();
    parameters_.push_back(&p);
  }

 private:
  // A number in [-1, 1): splitmix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014).
  static real uniform(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return static_cast<real>((x ^ x >> 31) >> 11) / static_cast<real>(std::uint64_t{1} << 52) - 1;
  }

  std::size_t count_ = 0;
  std::vector<parameter const*> parameters_;
};

// Each token's values with mean 0 and deviation 1, then scaled and moved (Ba et al., "Layer normalization", 2016).
class norm {
 public:
  explicit norm(int width) : scale{1, width, 0, 1}, shift{1, width, 0, 0} {}
  parameter scale, shift;

  matrix forward(real const* w, matrix const& x) {
    normal_ = x.colwise() - x.rowwise().mean();
    inverse_ = (normal_.rowwise().squaredNorm() / static_cast<real>(x.cols())).array() + 1e-5;
    inverse_ = inverse_.array().rsqrt();
    normal_ = inverse_.asDiagonal() * normal_;
    return (normal_ * scale.of(w).row(0).asDiagonal()).rowwise() + shift.of(w).row(0);
  }
  matrix backward(real const* w, real* g, matrix const& dy) {
    scale.of(g) += dy.cwiseProduct(normal_).colwise().sum();
    shift.of(g) += dy.colwise().sum();
    matrix dn = dy * scale.of(w).row(0).asDiagonal();
    column const mean = dn.rowwise().mean(), along = dn.cwiseProduct(normal_).rowwise().mean();
    dn.colwise() -= mean;
    dn -= along.asDiagonal() * normal_;
    return inverse_.asDiagonal() * dn;
  }

 private:
  matrix normal_;
  column inverse_;
};

// A token's values: those of its byte, and those of its place.
class embedding : public layer {
 public:
  explicit embedding(shape const& s) : byte_{s.vocabulary, s.width, 0.5}, place_{s.length, s.width, 0.5} {
    add(byte_), add(place_);
  }
  matrix forward(real const* w, matrix const&, passage& p) override {
    matrix y = place_.of(w);
    for (int t = 0; t < y.rows(); ++t) y.row(t) += byte_.of(w).row(at(p, t));
    return y;
  }
  matrix backward(real const*, real* g, matrix const& dy, passage& p) override {
    place_.of(g) += dy;
    for (int t = 0; t < dy.rows(); ++t) byte_.of(g).row(at(p, t)) += dy.row(t);
    return {};
  }

 private:
  static int at(passage const& p, int t) { return p.read[static_cast<std::size_t>(t)]; }
  parameter byte_, place_;
};

// x + f(norm(x)), where f's results for all parts add up: one sum forward, and one of gradients backward.
class residual : public layer {
 public:
  explicit residual(shape const& s) : norm_(s.width) { add(norm_.scale), add(norm_.shift); }
  matrix forward(real const* w, matrix const& x, passage& p) final {
    matrix y = through(w, norm_.forward(w, x));
    p.sum(y);
    return x + y;
  }
  matrix backward(real const* w, real* g, matrix const& dy, passage& p) final {
    matrix dn = back(w, g, dy);
    p.sum(dn);
    return dy + norm_.backward(w, g, dn);
  }

 private:
  virtual matrix through(real const* w, matrix const& x) = 0;
  virtual matrix back(real const* w, real* g, matrix const& dy) = 0;
  norm norm_;
};

// Each token looks at those before it and at itself, once a head: softmax(q k' / sqrt(d)) v. A part has some of the
// heads.
class attention : public residual {
 public:
  explicit attention(shape const& s)
      : residual(s), size_(s.width / s.heads), heads_(s.heads / s.parts), kept_(static_cast<std::size_t>(heads_)) {
    int const mine = size_ * heads_, first = s.part * mine;
    for (parameter* p : {&query_, &key_, &value_}) {
      *p = {.rows = s.width, .columns = mine, .deviation = 1 / std::sqrt(s.width), .first_column = first};
      add(*p);
    }
    output_ = {.rows = mine, .columns = s.width, .deviation = 1 / std::sqrt(s.width), .first_row = first};
    add(output_);
  }

 private:
  auto cut(matrix& m, int head) const { return m.middleCols(head * size_, size_); }
  auto cut(matrix const& m, int head) const { return m.middleCols(head * size_, size_); }
  matrix& kept(int head) { return kept_[static_cast<std::size_t>(head)]; }

  matrix through(real const* w, matrix const& x) override {
    x_ = x, q_ = x * query_.of(w), k_ = x * key_.of(w), v_ = x * value_.of(w);
    together_.resizeLike(q_);
    for (int h = 0; h < heads_; ++h) {
      matrix& a = kept(h);
      a = cut(q_, h) * cut(k_, h).transpose() / std::sqrt(size_);
      for (int t = 0; t < a.rows(); ++t) {
        auto seen = a.row(t).head(t + 1);
        seen = (seen.array() - seen.maxCoeff()).exp().matrix().eval();
        seen /= seen.sum();
        a.row(t).tail(a.cols() - t - 1).setZero();
      }
      cut(together_, h) = a * cut(v_, h);
    }
    return together_ * output_.of(w);
  }
  matrix back(real const* w, real* g, matrix const& dy) override {
    output_.of(g) += together_.transpose() * dy;
    matrix const dtogether = dy * output_.of(w).transpose();
    matrix dq(q_.rows(), q_.cols()), dk = dq, dv = dq;
    for (int h = 0; h < heads_; ++h) {
      matrix const& a = kept(h);
      matrix const da = cut(dtogether, h) * cut(v_, h).transpose();
      column const mean = da.cwiseProduct(a).rowwise().sum();
      matrix const ds = a.cwiseProduct(da.colwise() - mean) / std::sqrt(size_);
      cut(dq, h) = ds * cut(k_, h);
      cut(dk, h) = ds.transpose() * cut(q_, h);
      cut(dv, h) = a.transpose() * cut(dtogether, h);
    }
    query_.of(g) += x_.transpose() * dq, key_.of(g) += x_.transpose() * dk, value_.of(g) += x_.transpose() * dv;
    return dq * query_.of(w).transpose() + dk * key_.of(w).transpose() + dv * value_.of(w).transpose();
  }

  int size_, heads_;  // of a head; how many there are in this part
  parameter query_{}, key_{}, value_{}, output_{};
  matrix x_, q_, k_, v_, together_;
  std::vector<matrix> kept_;  // for each head, how much each token looks at each
};

// Two layers of weights with x / (1 + exp(-x)) between them. A part has some of the inner values.
class mlp : public residual {
 public:
  explicit mlp(shape const& s) : residual(s) {
    int const mine = s.inner / s.parts, first = s.part * mine;
    in_ = {.rows = s.width, .columns = mine, .deviation = 1 / std::sqrt(s.width), .first_column = first};
    out_ = {.rows = mine, .columns = s.width, .deviation = 1 / std::sqrt(s.inner), .first_row = first};
    add(in_), add(out_);
  }

 private:
  matrix through(real const* w, matrix const& x) override {
    x_ = x, inner_ = x * in_.of(w);
    gate_ = (1 + (-inner_.array()).exp()).inverse();
    return inner_.cwiseProduct(gate_) * out_.of(w);
  }
  matrix back(real const* w, real* g, matrix const& dy) override {
    out_.of(g) += inner_.cwiseProduct(gate_).transpose() * dy;
    auto const slope = gate_.array() * (1 + inner_.array() * (1 - gate_.array()));
    matrix const dinner = (dy * out_.of(w).transpose()).array() * slope;
    in_.of(g) += x_.transpose() * dinner;
    return dinner * in_.of(w).transpose();
  }

  parameter in_{}, out_{};
  matrix x_, inner_, gate_;
};

// How likely each byte comes next, and the loss: what the true one costs, -log of it, on average.
class head : public layer {
 public:
  explicit head(shape const& s) : norm_(s.width), guess_{s.width, s.vocabulary, 1 / std::sqrt(s.width)} {
    add(norm_.scale), add(norm_.shift), add(guess_);
  }
  matrix forward(real const* w, matrix const& x, passage& p) override {
    x_ = norm_.forward(w, x);
    likely_ = x_ * guess_.of(w);
    column const most = likely_.rowwise().maxCoeff();
    likely_ = (likely_.colwise() - most).array().exp();
    column const all = likely_.rowwise().sum();
    likely_ = all.cwiseInverse().asDiagonal() * likely_;
    for (int t = 0; t < x.rows(); ++t) p.loss -= p.share * std::log(likely_(t, next(p, t)));
    return {};
  }
  matrix backward(real const* w, real* g, matrix const&, passage& p) override {
    matrix d = likely_;
    for (int t = 0; t < d.rows(); ++t) d(t, next(p, t)) -= 1;
    d *= p.share;
    guess_.of(g) += x_.transpose() * d;
    return norm_.backward(w, g, d * guess_.of(w).transpose());
  }

 private:
  static int next(passage const& p, int t) { return p.next[static_cast<std::size_t>(t)]; }
  norm norm_;
  parameter guess_;
  matrix x_, likely_;
};

// Layers 0 to 2 blocks + 1: embedding, attention and MLP by turns, head.
constexpr int layers_of(shape const& s) { return 2 * s.blocks + 2; }
inline std::unique_ptr<layer> make_layer(shape const& s, int number) {
  if (number == 0) return std::make_unique<embedding>(s);
  if (number == layers_of(s) - 1) return std::make_unique<head>(s);
  if (number % 2 == 1) return std::make_unique<attention>(s);
  return std::make_unique<mlp>(s);
}

// Adam (Kingma and Ba, 2015), over any part of the parameters.
class adam {
 public:
  explicit adam(std::size_t count) : mean_(count), square_(count) {}
  void step(std::span<real> weights, std::span<real const> gradient) {
    constexpr real rate = 3e-3, keep_mean = 0.9, keep_square = 0.99, least = 1e-8;
    decay_mean_ *= keep_mean, decay_square_ *= keep_square;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      mean_[i] += (1 - keep_mean) * (gradient[i] - mean_[i]);
      square_[i] += (1 - keep_square) * (gradient[i] * gradient[i] - square_[i]);
      weights[i] -= rate * mean_[i] / (1 - decay_mean_) / (std::sqrt(square_[i] / (1 - decay_square_)) + least);
    }
  }
  std::size_t bytes() const { return (mean_.size() + square_.size()) * sizeof(real); }

 private:
  std::vector<real> mean_, square_;
  real decay_mean_ = 1, decay_square_ = 1;
};
