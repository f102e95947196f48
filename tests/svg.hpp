// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tests ask of pictures.
#pragma once

#include <cctype>
#include <string>
#include <vector>

inline int occurrences(std::string const& text, std::string const& what) {
  int n = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Whether every element that is opened is closed, in order, and all text is outside of tags.
inline bool well_formed(std::string const& xml) {
  std::vector<std::string> open;
  for (auto at = xml.find('<'); at != xml.npos; at = xml.find('<', at + 1)) {
    auto const end = xml.find('>', at);
    if (end == xml.npos || xml.find('<', at + 1) < end) return false;
    bool const closes = xml[at + 1] == '/';
    auto name_end = at + 1 + closes;
    while (std::isalnum(static_cast<unsigned char>(xml[name_end]))) ++name_end;
    std::string const name = xml.substr(at + 1 + closes, name_end - at - 1 - closes);
    if (closes) {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    } else if (xml[end - 1] != '/') {
      open.push_back(name);
    }
    if (occurrences(xml.substr(at, end - at), "\"") % 2 != 0) return false;
  }
  return open.empty();
}

// Whether it is one whole SVG file that needs nothing else.
inline bool stands_alone(std::string const& svg) {
  for (char const* foreign : {"<script", "href", "@import", "url(http"})
    if (svg.find(foreign) != svg.npos) return false;
  return svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && well_formed(svg);
}
