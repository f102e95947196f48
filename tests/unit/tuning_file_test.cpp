// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ringlet/tuning_file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

using namespace ringlet;

namespace {

std::string refused(std::string const& text) {
  try {
    tuned(text, 2);
  } catch (error const& e) {
    CHECK(e.why() == errc::invalid_argument);
    return e.words();
  }
  return "";
}

}  // namespace

TEST_CASE("the selection is that of the largest number of ranks that is not above, or the smallest there is") {
  std::string const text =
      "# a comment, and an empty line\n\n"
      "ranks=8 one_shot_bytes=800 boarded_bytes=80 staged_bytes=8000\n"
      "ranks=2 one_shot_bytes=200 boarded_bytes=20 staged_bytes=2000\n"
      "ranks=4 one_shot_bytes=400 boarded_bytes=40 staged_bytes=0";
  CHECK(tuned(text, 1) == selection{200, 20, 2000});
  CHECK(tuned(text, 2) == selection{200, 20, 2000});
  CHECK(tuned(text, 3) == selection{200, 20, 2000});
  CHECK(tuned(text, 4) == selection{400, 40, 0});
  CHECK(tuned(text, 7) == selection{400, 40, 0});
  CHECK(tuned(text, 8) == selection{800, 80, 8000});
  CHECK(tuned(text, 99) == selection{800, 80, 8000});
}

TEST_CASE("a text without lines gives the defaults") {
  CHECK(tuned("", 2) == selection{});
  CHECK(tuned("# nothing\n\n", 2) == selection{});
}

TEST_CASE("what describe says can be read again") {
  selection const some{12345, 6789, std::size_t{1} << 40};
  CHECK(tuned("ranks=3 " + some.describe() + "\n", 3) == some);
}

TEST_CASE("a line that is none is refused, with the line") {
  for (char const* line : {"ranks=2", "ranks=2 one_shot_bytes=1 boarded_bytes=1 staged_bytes=2 more",
                           "ranks=2 one_shot_bytes=1 staged_bytes=2", "one_shot_bytes=1",
                           "ranks=0 one_shot_bytes=1 boarded_bytes=1 staged_bytes=1",
                           "ranks=2 one_shot_bytes=x boarded_bytes=1 staged_bytes=1", " # indented",
                           "ranks=2 one_shot_bytes= 1 boarded_bytes=1 staged_bytes=1",
                           "ranks=2 one_shot_bytes=-1 boarded_bytes=1 staged_bytes=1",
                           "ranks=2 one_shot_bytes=99999999999999999999999 boarded_bytes=1 staged_bytes=1"})
    CHECK(refused(std::string("ranks=4 one_shot_bytes=1 boarded_bytes=1 staged_bytes=1\n") + line + "\n")
              .find("'" + std::string(line) + "'") != std::string::npos);
}

TEST_CASE("lines may end as on other systems") {
  CHECK(tuned("# one\r\n\r\nranks=2 one_shot_bytes=5 boarded_bytes=4 staged_bytes=6\r\n", 2) == selection{5, 4, 6});
}

TEST_CASE("a file is read, and one that is missing is an error that names it") {
  std::string const name = "/tmp/ringlet_tuning_file_test_" + std::to_string(::getpid());
  std::ofstream(name) << "ranks=2 one_shot_bytes=7 boarded_bytes=8 staged_bytes=9\n";
  CHECK(tuned_by(name, 2) == selection{7, 8, 9});
  std::remove(name.c_str());
  for (std::string const& none : {name, std::string("/tmp")}) try {
      tuned_by(none, 2);
      FAIL("read what is no file");
    } catch (error const& e) {
      CHECK(e.words() == "cannot read the tuning file " + none);
    }
}
