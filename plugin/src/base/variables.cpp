#include "base/variables.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

extern char** environ;

namespace ebbtide::plugin {
namespace {

constexpr std::array<std::string_view, 20> kVariables = {"EBBTIDE",
                                                         "EBBTIDE_BUDGET",
                                                         "EBBTIDE_PORT",
                                                         "EBBTIDE_BIND",
                                                         "EBBTIDE_REPORT",
                                                         "EBBTIDE_PERFETTO",
                                                         "EBBTIDE_SPILL_DIR",
                                                         "EBBTIDE_ON_INFEASIBLE",
                                                         "EBBTIDE_LOG",
                                                         "EBBTIDE_PLANNER",
                                                         "EBBTIDE_ALLOCATOR",
                                                         "EBBTIDE_TRACE_DIR",
                                                         "EBBTIDE_OFFLOAD",
                                                         "EBBTIDE_REPLAY_AHEAD",
                                                         "EBBTIDE_SOCKET_DIR",
                                                         "EBBTIDE_JOB_ID",
                                                         "EBBTIDE_TOKEN_FILE",
                                                         "EBBTIDE_TEXTFILE",
                                                         "EBBTIDE_PROOF",
                                                         "EBBTIDE_FIT"};

// Of earlier versions. No error: what they asked for is not needed any more.
constexpr std::array<std::string_view, 1> kGone = {"EBBTIDE_AUDIT_CACHE"};

// What they ask for is there only where steps are measured.
constexpr std::array kThatMeasure = {"EBBTIDE_BUDGET", "EBBTIDE_REPORT", "EBBTIDE_PERFETTO",
                                     "EBBTIDE_TEXTFILE", "EBBTIDE_TRACE_DIR"};

constexpr std::size_t kMostShown = 200;  // bytes of a name
constexpr std::string_view kPrefix = "EBBTIDE_";

int editDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The nearest name, where it may be the one that was meant; else all that there are.
std::string suggestionFor(std::string_view name) {
  const auto distance = [name](std::string_view known) {
    return known.starts_with(name) ? 0 : editDistance(name, known);
  };
  const auto nearest = std::min_element(kVariables.begin(), kVariables.end(),
                                        [&](auto a, auto b) { return distance(a) < distance(b); });
  // Of BUGDET two letters of six are others.
  if (2 * distance(*nearest) <= static_cast<int>(name.size() - kPrefix.size()))
    return "; did you mean " + std::string(*nearest) + "?";
  std::string text = "; there are";
  for (const std::string_view known : kVariables) text.append(" ").append(known);
  return text;
}

}  // namespace

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string() : std::string(text);
}

std::vector<std::string> knownVariables() {
  return {kVariables.begin(), kVariables.end()};
}

bool askedFor() {
  const std::string on = variable("EBBTIDE");
  if (on == "0") return false;
  const auto given = [](const char* name) { return !variable(name).empty(); };
  return !on.empty() || std::any_of(kThatMeasure.begin(), kThatMeasure.end(), given) ||
         !unknownVariable().empty();
}

std::string unknownVariable() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const auto has = [name](const auto& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (!name.starts_with(kPrefix) || has(kVariables) || has(kGone)) continue;
    return "unknown variable " + std::string(name.substr(0, kMostShown)) + suggestionFor(name);
  }
  return "";
}

std::vector<std::string> idleAllocatorSettings(const std::string& text) {
  constexpr std::array<std::string_view, 8> kIdle = {"max_split_size_mb",
                                                     "max_non_split_rounding_mb",
                                                     "garbage_collection_threshold",
                                                     "expandable_segments",
                                                     "roundup_power2_divisions",
                                                     "large_segment_size_mb",
                                                     "release_lock_on_cudamalloc",
                                                     "graph_capture_record_stream_reuse"};
  std::vector<std::string> names;
  std::string name;
  bool in_value = false;
  int lists = 0;
  for (const char c : text + ',') {
    lists += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && lists <= 0) {
      if (std::find(kIdle.begin(), kIdle.end(), name) != kIdle.end()) names.push_back(name);
      name.clear();
      in_value = false;
    } else if (c == ':') {
      in_value = true;
    } else if (!in_value && c != ' ') {
      name += c;
    }
  }
  return names;
}

}  // namespace ebbtide::plugin
