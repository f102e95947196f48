// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/error.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <set>
#include <string>
#include <type_traits>

using ringlet::errc;
using ringlet::error;

namespace {

constexpr errc all[] = {errc::invalid_argument, errc::timed_out,     errc::peer_lost, errc::mismatch,   errc::aborted,
                        errc::out_of_memory,    errc::not_connected, errc::bootstrap, errc::unsupported};

}  // namespace

TEST_CASE("every kind has words of its own in the category") {
  CHECK(ringlet::category().name() == std::string("ringlet"));
  std::set<std::string> said;
  for (errc e : all) {
    CHECK(make_error_code(e).category() == ringlet::category());
    CHECK(make_error_code(e).message() != "unknown");
    said.insert(make_error_code(e).message());
  }
  CHECK(said.size() == std::size(all));
  for (int none : {0, -1, static_cast<int>(std::size(all)) + 1}) CHECK(ringlet::category().message(none) == "unknown");
}

TEST_CASE("no kind is success: a code that is tested as a truth value says failure") {
  for (errc e : all) CHECK(make_error_code(e));
}

TEST_CASE("codes compare with errc, and not with others' numbers") {
  std::error_code const code = errc::timed_out;  // converts
  CHECK(code == errc::timed_out);
  CHECK(code != errc::peer_lost);
  CHECK(code != std::error_code(code.value(), std::generic_category()));
  for (errc e : all) CHECK(error(e, "").why() == e);
}

TEST_CASE("an error says who, where, and in words what") {
  error const e(errc::peer_lost, "rank 3 has ended", 3, 7, 1);
  CHECK(e.code() == errc::peer_lost);
  CHECK(e.why() == errc::peer_lost);
  CHECK(e.peer() == 3);
  CHECK(e.step() == 7);
  CHECK(e.lane() == 1);
  CHECK(std::string(e.what()).find("rank 3 has ended") == 0);
  CHECK(std::string(e.what()).find("peer lost") != std::string::npos);
}

TEST_CASE("an error of no single rank, step or lane says -1") {
  error const e(errc::aborted, "words");
  CHECK(e.peer() == -1);
  CHECK(e.step() == -1);
  CHECK(e.lane() == -1);
}

TEST_CASE("it is caught as what it is, as a system_error, and as an exception") {
  CHECK_THROWS_AS(throw error(errc::mismatch, "words"), error);
  CHECK_THROWS_AS(throw error(errc::mismatch, "words"), std::system_error);
  CHECK_THROWS_WITH_AS(throw error(errc::mismatch, "words"), doctest::Contains("words"), std::exception);
  static_assert(std::is_nothrow_copy_constructible_v<error>, "an exception is copied while another may be under way");
}

TEST_CASE("words are made as printf makes them, and whole, however long") {
  CHECK(ringlet::detail::words("%s of %d", "chunk", 7) == "chunk of 7");
  for (std::size_t length : {510, 511, 512, 513, 2000}) {
    std::string const given(length, 'x');
    CHECK(ringlet::detail::words("%s", given.c_str()) == given);
    CHECK(error(errc::bootstrap, given).words() == given);
  }
}
