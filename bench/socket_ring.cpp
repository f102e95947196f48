// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// socket_ring: the least that a ring over TCP can be, to compare `ringlet-perf --transport fabric` with. The same
// pattern (ring all_reduce of float sums, in place, slice by slice, reduced as soon as a slice is there), nothing of
// the library: a socket to the next rank, one from the previous, one loop of send and recv. Every element of a result
// is checked. bench/fabric.sh runs both in one network namespace.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringlet/bootstrap/launch.hpp"
#include "timing.hpp"

namespace {

using self = ringlet::bootstrap<ringlet::memory_store>;

std::runtime_error failed(char const* what) {
  return std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

class socket_ring {
 public:
  socket_ring(self who, std::size_t slice_bytes, int polls)
      : rank_(static_cast<std::size_t>(who.rank)),
        size_(static_cast<std::size_t>(who.size)),
        slice_(slice_bytes / sizeof(float)),
        polls_(polls),
        staging_(slice_) {
    int const door = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET, a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&a);
    socklen_t bytes = sizeof a;
    if (::bind(door, generic, bytes) != 0 || ::listen(door, 1) != 0 || ::getsockname(door, generic, &bytes) != 0)
      throw failed("listening");
    auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    auto const doors = ringlet::exchange(who, "socket_ring", std::to_string(a.sin_port), until);
    next_ = ::socket(AF_INET, SOCK_STREAM, 0);
    a.sin_port = static_cast<in_port_t>(std::stoi(doors[(rank_ + 1) % size_]));
    if (::connect(next_, generic, sizeof a) != 0) throw failed("connecting");
    prev_ = ::accept(door, nullptr, nullptr);
    int const yes = 1;
    ::setsockopt(next_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::close(door);
  }
  socket_ring(socket_ring const&) = delete;
  ~socket_ring() { ::close(next_), ::close(prev_); }

  void all_reduce(std::vector<float>& data) {
    std::size_t const longest = (data.size() + size_ - 1) / size_;
    slices_ = std::max<std::size_t>(1, (longest + slice_ - 1) / slice_);
    std::size_t const all = 2 * (size_ - 1) * slices_;
    std::size_t sent = 0, received = 0, sent_bytes = 0, received_bytes = 0;
    int idle = 0;
    while (sent < all || received < all) {
      bool moved = false;
      // A slice of a step can go when the same slice of the step before has come.
      while (sent < all && (sent < slices_ || received > sent - slices_)) {
        auto const [at, bytes] = part(data, sent, 0);
        if (sent_bytes < bytes) {
          ssize_t const n =
              ::send(next_, reinterpret_cast<char*>(at) + sent_bytes, bytes - sent_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
          if (n < 0 && errno != EAGAIN) throw failed("send");
          if (n < 0) break;
          sent_bytes += static_cast<std::size_t>(n);
          moved = true;
        }
        if (sent_bytes < bytes) break;
        ++sent, sent_bytes = 0;
      }
      if (received < all) {
        auto const [at, bytes] = part(data, received, 1);
        bool const reduces = received / slices_ < size_ - 1;
        char* const to = reinterpret_cast<char*>(reduces ? staging_.data() : at);
        if (received_bytes < bytes) {
          ssize_t const n = ::recv(prev_, to + received_bytes, bytes - received_bytes, MSG_DONTWAIT);
          if (n == 0 || (n < 0 && errno != EAGAIN)) throw failed("recv");
          if (n > 0) received_bytes += static_cast<std::size_t>(n), moved = true;
        }
        if (received_bytes == bytes) {
          if (reduces)
            for (std::size_t i = 0; i < bytes / sizeof(float); ++i) at[i] += staging_[i];
          ++received, received_bytes = 0, moved = true;
        }
      }
      idle = moved ? 0 : idle + 1;
      if (idle > polls_) {
        bool const may_send = sent < all && (sent < slices_ || received > sent - slices_);
        pollfd p[] = {{prev_, static_cast<short>(received < all ? POLLIN : 0), 0},
                      {next_, static_cast<short>(may_send ? POLLOUT : 0), 0}};
        ::poll(p, 2, 1000);
      }
    }
  }

 private:
  struct piece {
    float* at;
    std::size_t bytes;
  };
  // The slice that is sent (shift 0) or received (1) as the i-th.
  piece part(std::vector<float>& data, std::size_t i, std::size_t shift) const {
    std::size_t const chunk = (rank_ + 2 * size_ - i / slices_ % size_ - shift) % size_;
    std::size_t const base = data.size() / size_, longer = data.size() % size_;
    std::size_t const begin = chunk * base + std::min(chunk, longer), length = base + (chunk < longer);
    std::size_t const from = std::min(length, i % slices_ * slice_), to = std::min(length, from + slice_);
    return {data.data() + begin + from, (to - from) * sizeof(float)};
  }

  std::size_t rank_, size_, slice_, slices_ = 1;
  int polls_;
  std::vector<float> staging_;
  int next_ = -1, prev_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  int ranks = 2, iterations = 20, warm_up = 5, polls = 2000;
  std::size_t least = 8, most = std::size_t{32} << 20, factor = 2, slice = std::size_t{512} << 10;
  CLI::App app("Times a ring all_reduce of float sums over bare TCP sockets, in place", "socket_ring");
  app.add_option("--ranks", ranks)->check(CLI::Range(2, 64))->capture_default_str();
  app.add_option("-b,--minbytes", least)->transform(CLI::AsSizeValue(false))->capture_default_str();
  app.add_option("-e,--maxbytes", most)->transform(CLI::AsSizeValue(false))->capture_default_str();
  app.add_option("-f,--stepfactor", factor)->check(CLI::Range(2, 1024))->capture_default_str();
  app.add_option("-n,--iters", iterations)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("-w,--warmup_iters", warm_up)->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--slice-bytes", slice)->transform(CLI::AsSizeValue(false))->capture_default_str();
  app.add_option("--polls", polls, "In vain, before a rank sleeps")->capture_default_str();
  bool pin = false;
  app.add_flag("--pin", pin, "Bind each rank to a processor");
  CLI11_PARSE(app, argc, argv);

  return ringlet::launch(
      ranks,
      [&](self who) {
        socket_ring ring(who, slice, polls);
        if (who.rank == 0) std::printf("#      size (B)     time (us)  busbw (GB/s)\n");
        for (std::size_t bytes = least; bytes <= most; bytes *= factor) {
          std::vector<float> data(std::max<std::size_t>(1, bytes / sizeof(float)));
          for (std::size_t i = 0; i < data.size(); ++i)
            data[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(who.rank) * 3) % 64);
          ring.all_reduce(data);
          for (std::size_t i = 0; i < data.size(); ++i) {
            float sum = 0;
            for (int r = 0; r < ranks; ++r) sum += static_cast<float>((i * 7 + static_cast<std::size_t>(r) * 3) % 64);
            if (data[i] != sum) throw std::runtime_error("element " + std::to_string(i) + " is wrong");
          }
          std::fill(data.begin(), data.end(), 0.0F);
          for (int i = 0; i < warm_up; ++i) ring.all_reduce(data);
          double const seconds = seconds_of(iterations, [&] { ring.all_reduce(data); });
          double const n = ranks,
                       busbw = static_cast<double>(data.size() * sizeof(float)) * 2 * (n - 1) / n / seconds / 1e9;
          if (who.rank == 0) std::printf("%14zu  %12.2f  %12.2f\n", data.size() * sizeof(float), seconds * 1e6, busbw);
        }
      },
      {.as = ringlet::ranks_as::processes, .pin = pin});
}
