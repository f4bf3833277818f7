#include "live/rank_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "checked_json.hpp"
#include "live/rank_answers.hpp"
#include "shown_values.hpp"
#include "terminal_text.hpp"
#include "text_table.hpp"

namespace ebbtide::cli {
namespace {

constexpr std::size_t kMostOps = 20;     // as many as a server of ours sends
constexpr std::size_t kLongestOp = 100;  // letters

std::string nameIn(const nlohmann::json& tree, const char* key) {
  return forColumns(textAt(tree, {key}).substr(0, kLongestOp));
}

// With a server's numbers no sum overflows: from 2^53 bytes on it is rounded.
std::optional<std::int64_t> bytesFrom(double sum) {
  return static_cast<std::int64_t>(std::clamp(sum, 0.0, 9e18));
}

// Without a mode it is not known: not all versions tell one.
bool isPaused(const nlohmann::json& tree) {
  return textAt(tree, {"mode"}) == "paused";
}

std::string whyNone(const nlohmann::json& tree) {
  if (isPaused(tree)) return "no plan: the rank is paused and trains as PyTorch alone does";
  if (!at(tree, {"timeline"}).is_object()) return "no plan yet: no step has been recorded";
  const auto budget = integerAt(tree, {"timeline", "budget_bytes"});
  if (!budget) return "no plan: no budget is in force";
  return "no plan: nothing has to be dropped within " + shownBytes(budget) +
         ", or it is still being planned";
}

// What lies there when most does, by what is done with it.
std::string atThePeak(const nlohmann::json& tree) {
  struct Sum {
    const char* action;
    const char* shown;
    std::vector<double> bytes;
  };
  std::array<Sum, 5> sums{{{"base", "parameters and other base", {}},
                           {"kept", "kept activations", {}},
                           {"encoded", "compressed masks", {}},
                           {"offloaded", "activations to offload", {}},
                           {"recomputed", "activations to recompute", {}}}};
  std::vector<double> total;
  const nlohmann::json& areas = at(tree, {"areas"});
  if (!areas.is_array()) return "";
  for (const nlohmann::json& area : areas) {
    const std::string action = textAt(area, {"action"});
    const auto found = std::find_if(sums.begin(), sums.end(),
                                    [&](const Sum& sum) { return action == sum.action; });
    if (found == sums.end()) continue;
    const std::vector<double> bytes = numbersAt(area, {"live_bytes"});
    found->bytes.resize(std::max(found->bytes.size(), bytes.size()));
    total.resize(std::max(total.size(), bytes.size()));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      found->bytes[i] += bytes[i];
      total[i] += bytes[i];
    }
  }
  if (total.empty()) return "";
  const auto peak =
      static_cast<std::size_t>(std::max_element(total.begin(), total.end()) - total.begin());
  std::string text;
  for (const Sum& sum : sums) {
    const auto bytes = bytesFrom(peak < sum.bytes.size() ? sum.bytes[peak] : 0);
    if (bytes == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", shownBytes(bytes), sum.shown);
  }
  return text.empty() ? "" : "  at the predicted peak: " + text + "\n";
}

// What is made again in a step; of the dearest ops alone, where the server left some out.
std::string bytesMadeAgain(const nlohmann::json& tree) {
  const nlohmann::json& rows = at(tree, {"recomputed"});
  double bytes = 0, ops = 0;
  for (std::size_t i = 0; rows.is_array() && i < rows.size(); ++i) {
    bytes += numberAt(rows[i], {"freed_bytes"}).value_or(0);
    ops += numberAt(rows[i], {"ops"}).value_or(0);
  }
  const bool whole = ops >= numberAt(tree, {"plan", "recomputed_ops"}).value_or(0);
  return (whole ? "" : "at least ") + shownBytes(bytesFrom(bytes));
}

std::string shownMany(std::int64_t count, const char* one) {
  return fmt::format("{} {}{}", shownCount(count), one, count == 1 ? "" : "s");
}

// What the plan saves memory by.
std::string doneInAStep(const nlohmann::json& tree) {
  const auto count = [&](const char* key) { return integerAt(tree, {"plan", key}).value_or(0); };
  std::vector<std::string> parts;
  if (const auto ops = count("recomputed_ops"); ops > 0) {
    parts.push_back(
        fmt::format("recomputes {} ({})", shownMany(ops, "operator"), bytesMadeAgain(tree)));
  }
  if (const auto ahead = count("replays_ahead"); ahead > 0) {
    parts.push_back(fmt::format("{} before a message arrives", shownCount(ahead)));
  }
  if (const auto values = count("offloaded_values"); values > 0) {
    parts.push_back(fmt::format("offloads {} ({})", shownMany(values, "value"),
                                shownBytes(integerAt(tree, {"plan", "offloaded_bytes"}))));
  }
  if (const auto masks = count("decoded_values"); masks > 0) {
    parts.push_back(fmt::format("decompresses {}", shownMany(masks, "mask")));
  }
  return parts.empty() ? "" : fmt::format("  each step: {}\n", fmt::join(parts, ", "));
}

std::string dearestOps(const nlohmann::json& tree) {
  const nlohmann::json& rows = at(tree, {"recomputed"});
  if (!rows.is_array() || rows.empty()) return "";
  TextTable table({{"recomputed", false}, {"times"}, {"a step"}, {"frees"}});
  for (std::size_t i = 0; i < std::min(rows.size(), kMostOps); ++i) {
    table.add({nameIn(rows[i], "op"), shownCount(integerAt(rows[i], {"ops"})),
               shownSeconds(numberAt(rows[i], {"seconds"})),
               shownBytes(integerAt(rows[i], {"freed_bytes"}))});
  }
  return table.text();
}

std::string withIndent(const std::string& lines) {
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin) + 1;
    text += "  " + lines.substr(begin, end - begin);
    begin = end;
  }
  return text;
}

}  // namespace

std::string describePlan(const RankAnswer& answer) {
  const nlohmann::json& tree = answer.document;
  if (!at(tree, {"plan"}).is_object()) return whyNone(tree);
  const auto step = integerAt(tree, {"plan", "active_from_step"});
  const auto seconds = numberAt(tree, {"plan", "plan_seconds"});
  // Until the next step begins a rank that was paused names the step from which on it had the plan.
  std::string text = fmt::format("{}, planned by {}{}\n",
                                 isPaused(tree) ? "not in force while paused"
                                 : step         ? fmt::format("in force from step {} on", *step)
                                                : "not in force yet",
                                 nameIn(at(tree, {"plan"}), "planner"),
                                 seconds ? " in " + shownSeconds(seconds) : "");
  text += fmt::format("  predicted: peak {} (budget {}, {} without a plan), {} more time\n",
                      shownBytes(integerAt(tree, {"plan", "predicted_peak_bytes"})),
                      shownBudget(integerAt(tree, {"timeline", "budget_bytes"})),
                      shownBytes(integerAt(tree, {"plan", "plain_peak_bytes"})),
                      shownShare(numberAt(tree, {"plan", "overhead_ratio"})));
  text += atThePeak(tree) + doneInAStep(tree) + withIndent(dearestOps(tree));
  text.pop_back();
  return text;
}

int showPlans(const JobInput& input, bool json) {
  RunningJob job = RunningJob::find(input);
  return print(job, job.get("/v1/plan"), json, describePlan);
}

}  // namespace ebbtide::cli
