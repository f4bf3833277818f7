// JobVersions: what has to be the same on all ranks that plan together. It is the first line of
// what a rank reports, and that line never changes its form: ranks of whatever versions read it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::plugin {

struct JobVersions {
  // To be raised when a document, a key or what one means changes.
  static constexpr std::int32_t kProtocol = 4;

  std::int32_t protocol = kProtocol;
  std::string plugin;
  std::string torch;

  friend auto operator<=>(const JobVersions&, const JobVersions&) = default;
};

// "ebbtide-job 4 0.1.0 2.11.0\n"; what could not be read back in a version is left out.
std::string versionsLine(const JobVersions& versions);
// Takes the line off `text`. Throws std::invalid_argument.
JobVersions takeVersions(std::string_view& text);

// "" if all are the same, else "rank 1: ebbtide 0.2.0 with torch 2.11.0; ranks 0, 2-3: …". The
// protocols are named where nothing else differs.
std::string versionsApart(const std::vector<JobVersions>& of_ranks);

// "rank 3", "ranks 0, 2-5". Ascending numbers.
std::string ranksText(const std::vector<std::int32_t>& ranks);
std::string numbersText(const std::string& of_what, const std::vector<std::int32_t>& numbers);

}  // namespace ebbtide::plugin
