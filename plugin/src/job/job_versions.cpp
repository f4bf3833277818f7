#include "job/job_versions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <stdexcept>

namespace ebbtide::plugin {
namespace {

constexpr std::string_view kWord = "ebbtide-job";
constexpr std::size_t kMostVersionBytes = 64;

bool plain(char c) {
  return c > ' ' && c <= '~';
}

std::string cleaned(const std::string& version) {
  std::string text;
  for (const char c : version) {
    if (plain(c) && text.size() < kMostVersionBytes) text += c;
  }
  return text.empty() ? "?" : text;
}

std::string_view takeWord(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(line.size(), word.size() + 1));
  if (word.empty() || word.size() > kMostVersionBytes ||
      !std::all_of(word.begin(), word.end(), plain))
    throw std::invalid_argument("its first line is none of ours");
  return word;
}

}  // namespace

std::string versionsLine(const JobVersions& versions) {
  return fmt::format("{} {} {} {}\n", kWord, versions.protocol, cleaned(versions.plugin),
                     cleaned(versions.torch));
}

JobVersions takeVersions(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) throw std::invalid_argument("its first line is none of ours");
  std::string_view line = text.substr(0, end);
  if (takeWord(line) != kWord) throw std::invalid_argument("its first line is none of ours");
  JobVersions versions;
  const std::string_view number = takeWord(line);
  const auto [stopped, error] =
      std::from_chars(number.data(), number.data() + number.size(), versions.protocol);
  if (error != std::errc() || stopped != number.data() + number.size() || versions.protocol < 0)
    throw std::invalid_argument("its protocol is no number");
  versions.plugin = takeWord(line);
  versions.torch = takeWord(line);  // later protocols may say more after it
  text.remove_prefix(end + 1);
  return versions;
}

std::string versionsApart(const std::vector<JobVersions>& of_ranks) {
  std::map<JobVersions, std::vector<std::int32_t>> ranks_of;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
    ranks_of[of_ranks[rank]].push_back(static_cast<std::int32_t>(rank));
  if (ranks_of.size() <= 1) return "";
  const JobVersions& first = ranks_of.begin()->first;
  const bool same_names =
      std::all_of(ranks_of.begin(), ranks_of.end(), [&first](const auto& entry) {
        return entry.first.plugin == first.plugin && entry.first.torch == first.torch;
      });
  std::string text;
  for (const auto& [versions, ranks] : ranks_of) {
    text += fmt::format("{}{}: ebbtide {} with torch {}", text.empty() ? "" : "; ",
                        ranksText(ranks), versions.plugin, versions.torch);
    if (same_names) text += fmt::format(" (protocol {})", versions.protocol);
  }
  return text;
}

std::string ranksText(const std::vector<std::int32_t>& ranks) {
  return numbersText("rank", ranks);
}

std::string numbersText(const std::string& of_what, const std::vector<std::int32_t>& numbers) {
  std::string text = of_what + (numbers.size() == 1 ? " " : "s ");
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (i > 0) text += ", ";
    text +=
        last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace ebbtide::plugin
