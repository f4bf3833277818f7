#include "runtime/budget/budget_refusal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "out_of_memory/out_of_memory.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;

constexpr int kMostSavedOps = 4;  // that a refusal names

// "aten::native_layer_norm 120.0 MiB, …": saved bytes by the op that made them, largest first.
std::string dominatingOps(const scheduler::TraceGraph& graph) {
  std::map<std::string, scheduler::Bytes> by_op;
  std::vector<bool> read(graph.graph.values.size(), false);
  for (const auto& op : graph.graph.ops) {
    if (!op.backward) continue;
    for (const ValueId v : op.inputs) read[v] = true;
  }
  for (std::size_t v = 0; v < read.size(); ++v) {
    const auto& value = graph.graph.values[v];
    if (read[v] && !value.pinned) {
      by_op[value.producer == kNone ? "inputs" : graph.graph.ops[value.producer].name] +=
          value.bytes;
    }
  }
  std::vector<std::pair<scheduler::Bytes, std::string>> order;
  order.reserve(by_op.size());
  for (const auto& [name, bytes] : by_op) order.emplace_back(bytes, name);
  std::sort(order.rbegin(), order.rend());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), kMostSavedOps); ++i) {
    text += (i ? ", " : "") + order[i].second + " " + formatBytes(order[i].first);
  }
  return text.empty() ? "nothing that was saved for backward" : text;
}

}  // namespace

void BudgetRefusal::describe(const Held& held, const Need& need, bool most) {
  floor_text_ = scheduler::describe(scheduler::floorBlocks(need.trace, need.graph, need.floor));
  saved_text_ = dominatingOps(need.graph);
  floor_bytes_ = need.bytes;
  if (most) noteNeedsMost(held, need.trace);
}

void BudgetRefusal::noteNeedsMost(const Held&, const scheduler::Trace& trace) {
  needs_most_ = {.program = trace.signature,
                 .first_op = trace.ops.empty() ? 0 : trace.ops[0].signature};
}

void BudgetRefusal::forgetNeed(const Held&) {
  floor_text_.clear();
  saved_text_.clear();
}

bool BudgetRefusal::ends(const Held&) const {
  return run_.trained.budgetBytes() && floor_.tooSmall() &&
         run_.config->planning.on_infeasible == OnInfeasible::kStop;
}

void BudgetRefusal::refuse(const Held& held, Bytes base_bytes) {
  words_ = refusalWords(base_bytes);
  stop_.cannotFit(refusalText({}));
  if (run_.config->planning.on_infeasible != OnInfeasible::kStop) {
    if (budget_.isNew(RankBudget::Message::kInfeasible)) run_.warn(overrunText());
    return;
  }
  // The same again, after it was let go on: nothing larger is let go on with again.
  const bool again = needs_most_.first_op == refused_.first_op && refused_base_bytes_ > 0;
  refused_base_bytes_ = again ? std::min(refused_base_bytes_, base_bytes) : base_bytes;
  refused_ = needs_most_;
  refused_bytes_ = floor_.neededBytes();
  may_be_same_ = false;
  run_.to_record.atLeast(3);  // of another program, if one follows
  if (mayBeAdvised(held)) {
    stop_.stopWhenAdvised(std::chrono::steady_clock::now());
  } else {
    stop_.stopAtOnce();
  }
}

std::string BudgetRefusal::overrunText() const {
  const std::string note = spillProblem();
  return fmt::format(
      "the budget of {} is too small for this program, which needs {}: training goes on over it, "
      "as EBBTIDE_ON_INFEASIBLE=best-effort asks. Smallest budget: EBBTIDE_BUDGET={}{}",
      formatBytes(budgetBytes()), formatBytes(floor_.neededBytes()),
      asSetting(told_.smallestBytes()), note.empty() ? "" : "." + note);
}

// What is needed at least rests on spilling.
std::string BudgetRefusal::spillProblem() const {
  const std::string error = run_.trained.spills().lastError();
  return error.empty() ? "" : " Note: " + error + " (EBBTIDE_SPILL_DIR chooses another folder).";
}

// One budget for all ranks: the largest that is known. The first refusal ends the job.
std::string BudgetRefusal::namedText(const NeedsOfRanks::ByRank& others) const {
  const std::string own = asSetting(words_.smallest_bytes);
  const int rank = run_.config->rank;
  if (run_.config->world_size <= 1) return own;
  const bool all = others.size() + 1 == static_cast<std::size_t>(run_.config->world_size);
  const auto most =
      std::max_element(others.begin(), others.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == others.end() || most->second <= words_.smallest_bytes) {
    return fmt::format("{} (of rank {}; {})", own, rank,
                       all ? "the others need no more so far" : "other ranks may need more");
  }
  return fmt::format("{} (of rank {}; rank {} needs {}{})", asSetting(most->second), most->first,
                     rank, own, all ? "" : ", others may need more");
}

// One sentence, and a blank; empty: not known. Once nothing can be spilled the need is a plan's.
std::string BudgetRefusal::mostText() const {
  if (run_.outage.began()) return "";
  if (floor_.needsMostAtStart())
    return "Most is needed by what the program allocated before its first step. ";
  if (floor_text_.empty()) return "";
  const Bytes needed = floor_.neededBytes();
  if (needed * 100 <= floor_bytes_ * (100 + BudgetFloor::kSamePercent))
    return fmt::format("Most is needed by {}. ", floor_text_);
  return fmt::format(
      "{} were mapped at most, in a step or between two; the steps alone need {}, most of it by "
      "{}. ",
      formatBytes(needed), formatBytes(floor_bytes_), floor_text_);
}

// Batch-size finders (accelerate's, Lightning's) look for the words that it begins with.
BudgetRefusal::Words BudgetRefusal::refusalWords(Bytes base_bytes) const {
  return {.before = fmt::format(
              "{} the budget of {}: it is too small for this program, which needs {}.\n",
              run_.trained.isElsewhere()
                  ? "CUDA out of memory. Memory cannot be allocated within"
                  : "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory within",
              formatBytes(budgetBytes()), formatBytes(floor_.neededBytes())),
          .after = fmt::format(
              "{}\n{}Live when a step begins (parameters, gradients, optimizer, data): {}. "
              "Saved for backward, by op: {}.\n"
              "To train on over the budget: EBBTIDE_ON_INFEASIBLE=best-effort.",
              spillProblem(), mostText(), formatBytes(base_bytes), saved_text_),
          .smallest_bytes = told_.smallestBytes()};
}

std::string BudgetRefusal::refusalText(const NeedsOfRanks::ByRank& others) const {
  return fmt::format("{}Smallest budget: EBBTIDE_BUDGET={}.{}", words_.before, namedText(others),
                     words_.after);
}

std::string BudgetRefusal::raise(const Held&, const NeedsOfRanks::ByRank& others) {
  stop_.cannotFit(refusalText(others));
  stop_.noteRaised();
  return stop_.message();
}

// -----------------------------------------------------------------------------------------------
// the program goes on

// A first op that reads parameters alone (a cast, a weight's norm) is the same for every batch. Of
// a smaller batch less may live when the step begins; else its first step tells.
bool BudgetRefusal::goesOn(const Held&, std::uint64_t first_op_signature, Bytes base_bytes) {
  if (!stop_.requested() || !stop_.raised()) return false;
  const bool same = refused_.first_op == 0 || first_op_signature == refused_.first_op;
  const bool maybe_same = same && base_bytes >= refused_base_bytes_;
  if (maybe_same && maybe_same_ == kMostMaybeSame) return false;
  if (maybe_same) ++maybe_same_;
  if (same) refused_base_bytes_ = std::min(refused_base_bytes_, base_bytes);
  may_be_same_ = maybe_same;
  stop_.goOn();
  return true;
}

bool BudgetRefusal::isSame(const Held&, const Need& need) {
  if (!std::exchange(may_be_same_, false) || refused_.program == 0) return false;
  if (need.trace.signature == refused_.program) return true;
  const Bytes least = least_let_go_bytes_ > 0 ? least_let_go_bytes_ : refused_bytes_;
  if (need.bytes >= least) return false;
  least_let_go_bytes_ = need.bytes;
  maybe_same_ = 0;
  return false;
}

void BudgetRefusal::beginAnew(const Held&) {
  stop_.goOn();
  may_be_same_ = false;
  refused_base_bytes_ = least_let_go_bytes_ = 0;
  maybe_same_ = 0;
}

}  // namespace ebbtide::plugin
