#include "search/replay_search.hpp"

#include <algorithm>
#include <cmath>

namespace ebbtide::scheduler {
namespace {

constexpr int kTriesPerChoice = 12;
constexpr int kConstructChoices = 16;
constexpr int kMostFailures = 100;
// A state found is copied only so often: a large one would cost more than the search for it.
constexpr std::int64_t kMovesPerCopy = 64;  // replays copied for each move made
constexpr int kPriceWindow = 200;           // moves
constexpr double kPriceRange = 1e6;         // up and down from the first price

}  // namespace

ReplaySearch::ReplaySearch(const Graph& graph, const ReplaySearchOptions& options)
    : graph_(graph),
      options_(options),
      timeline_(graph),
      best_peak_(timeline_.peak()),
      state_(options.seed) {
  Nanoseconds time = 0;
  Bytes bytes = 0;
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.pinned || value.producer == kNone || value.bytes == 0) continue;
    if (timeline_.lastStage(value.producer) <= value.producer) continue;
    candidates_.push_back(static_cast<ValueId>(id));
    time += graph.ops[value.producer].duration_ns;
    bytes += value.bytes;
  }
  if (candidates_.empty()) return;
  const double count = static_cast<double>(candidates_.size());
  typical_ns_ = std::max(1.0, static_cast<double>(time) / count);
  price_ = first_price_ = 4 * typical_ns_ * count / static_cast<double>(bytes);
}

// splitmix64
std::uint64_t ReplaySearch::random() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double ReplaySearch::energy() const {
  const Bytes over = std::max<Bytes>(0, timeline_.peak() - options_.budget_bytes);
  return static_cast<double>(timeline_.replayNs()) + price_ * static_cast<double>(over);
}

bool ReplaySearch::insert(RunKey replay) {
  if (timeline_.replaysOf(replay.op()) + 1 >= options_.intervals) return false;
  if (!timeline_.insert(replay)) return false;
  changes_.push_back({replay, true});
  return true;
}

bool ReplaySearch::remove(RunKey replay) {
  if (!timeline_.remove(replay)) return false;
  changes_.push_back({replay, false});
  return true;
}

void ReplaySearch::undo() {
  for (; !changes_.empty(); changes_.pop_back()) {
    const Change& change = changes_.back();
    change.inserted ? timeline_.remove(change.replay) : timeline_.insert(change.replay);
  }
}

// After `reader` is gone: replays that made its inputs for it alone go too.
void ReplaySearch::dropIdle(RunKey reader) {
  for (ValueId input : graph_.ops[reader.op()].inputs) {
    if (graph_.values[input].pinned) continue;
    const auto& uses = timeline_.runsOf(input);
    const auto after = std::lower_bound(uses.begin(), uses.end(), reader);
    const RunKey before = *(after - 1);
    if (before.bits == 0 || before.first() || !timeline_.makes(input, before)) continue;
    if (timeline_.idle(before) && remove(before)) dropIdle(before);
  }
}

bool ReplaySearch::removeOne() {
  if (timeline_.replays().empty()) return false;
  const RunKey replay = timeline_.replays()[pick(timeline_.replays().size())];
  if (!remove(replay)) return false;
  dropIdle(replay);
  return true;
}

// Inputs that live on through `over` for this replay alone may be recomputed beside it.
void ReplaySearch::deepen(RunKey replay, RunKey over) {
  for (ValueId input : graph_.ops[replay.op()].inputs) {
    const Value& value = graph_.values[input];
    if (value.pinned || value.producer == kNone) continue;
    const auto& uses = timeline_.runsOf(input);
    const auto use = std::lower_bound(uses.begin(), uses.end(), replay);
    const bool alone = use + 1 == uses.end() || timeline_.makes(input, *(use + 1));
    if (!alone || *(use - 1) >= over || changes_.size() >= deepest_ || !chance(50)) continue;
    const RunKey again(replay.stage(), value.producer);
    if (insert(again)) deepen(again, over);
  }
}

// A replay of a value that is not used in `over`, for its next reader or some stages before.
RunKey ReplaySearch::replayAfter(ValueId value, RunKey over) {
  const auto& uses = timeline_.runsOf(value);
  if (uses.empty() || uses.front() >= over || uses.back() <= over) return {};
  const auto next = std::upper_bound(uses.begin(), uses.end(), over);
  if (*(next - 1) == over || timeline_.makes(value, *next)) return {};
  const OpId op = graph_.values[value].producer;
  const OpId latest = next->stage();
  const OpId earliest = over.stage() + (op > over.op() ? 0 : 1);
  if (earliest > latest) return {};
  const std::size_t span = static_cast<std::size_t>(latest - earliest) + 1;
  return {chance(30) ? latest - static_cast<OpId>(pick(span)) : latest, op};
}

// Drops a value where there is too much: of `choices` that would help, the one that takes least
// time per byte.
bool ReplaySearch::relieve(int choices) {
  if (candidates_.empty()) return false;
  const std::size_t stage =
      timeline_.stages().positionAbove(options_.budget_bytes, [this] { return random() >> 63; });
  const RunKey over = timeline_.peakRun(static_cast<OpId>(stage));
  RunKey chosen;
  double least = 0;
  for (int tries = choices * kTriesPerChoice; tries > 0 && choices > 0; --tries) {
    const ValueId value = candidates_[pick(candidates_.size())];
    const RunKey replay = replayAfter(value, over);
    if (replay.bits == 0 || timeline_.replaysOf(replay.op()) + 1 >= options_.intervals) continue;
    const double time = static_cast<double>(graph_.ops[replay.op()].duration_ns);
    const double ratio = (time + 1) / static_cast<double>(graph_.values[value].bytes);
    if (chosen.bits == 0 || ratio < least) {
      chosen = replay;
      least = ratio;
    }
    --choices;
  }
  if (chosen.bits == 0 || !insert(chosen)) return false;
  deepest_ = changes_.size() + (chance(50) ? 0 : pick(4));
  deepen(chosen, over);
  return true;
}

// Until the budget is met, or most of the attempts fail.
void ReplaySearch::construct() {
  restore({});
  int failures = 0;
  for (std::size_t i = 0; timeline_.peak() > options_.budget_bytes && failures < kMostFailures;
       ++i) {
    if (i % 64 == 0 && late()) break;
    changes_.clear();
    failures = relieve(kConstructChoices) ? 0 : failures + 1;
  }
  if (improves()) remember();
}

bool ReplaySearch::shiftOne() {
  if (timeline_.replays().empty()) return false;
  const RunKey replay = timeline_.replays()[pick(timeline_.replays().size())];
  OpId first = replay.op() + 1, last = static_cast<OpId>(graph_.ops.size()) - 1;
  for (ValueId output : graph_.ops[replay.op()].outputs) {
    if (graph_.values[output].pinned) continue;
    const auto& uses = timeline_.runsOf(output);
    const auto use = std::lower_bound(uses.begin(), uses.end(), replay);
    first = std::max(first, (use - 1)->stage());
    if (use + 1 != uses.end()) last = std::min(last, (use + 1)->stage());
  }
  if (first >= last) return false;
  OpId to = first + static_cast<OpId>(pick(static_cast<std::size_t>(last - first) + 1));
  if (chance(50)) to = std::clamp(replay.stage() + (chance(50) ? 1 : -1), first, last);
  return to != replay.stage() && remove(replay) && insert({to, replay.op()});
}

bool ReplaySearch::swapSome() {
  if (!removeOne()) return false;
  if (chance(20)) removeOne();
  for (int i = 0; i < 3 && timeline_.peak() > options_.budget_bytes; ++i) {
    if (!relieve(1 + static_cast<int>(pick(3)))) break;
  }
  return true;
}

void ReplaySearch::propose() {
  const bool over = timeline_.peak() > options_.budget_bytes;
  const std::size_t kind = pick(100);
  bool made = false;
  if (over && kind < 40) {
    made = relieve(1 + static_cast<int>(pick(3)));
  } else if (kind < 60) {
    made = removeOne();
  } else if (kind < 75) {
    made = shiftOne();
  } else {
    made = swapSome();
  }
  if (!made) undo();
}

void ReplaySearch::remember() {
  best_ = timeline_.replays();
  best_peak_ = timeline_.peak();
  best_ns_ = timeline_.replayNs();
}

void ReplaySearch::restore(const std::vector<RunKey>& replays) {
  std::vector<RunKey> sorted = timeline_.replays();
  std::sort(sorted.begin(), sorted.end());
  for (auto replay = sorted.rbegin(); replay != sorted.rend(); ++replay) timeline_.remove(*replay);
  sorted = replays;
  std::sort(sorted.begin(), sorted.end());
  for (RunKey replay : sorted) timeline_.insert(replay);
}

void ReplaySearch::startFrom(const Schedule& schedule) {
  restore(stagedReplays(graph_, schedule));
  if (improves()) remember();
}

void ReplaySearch::adjustPrice() {
  if (timeline_.peak() <= options_.budget_bytes) ++fitting_;
  if (++watched_ < kPriceWindow) return;
  const double share = static_cast<double>(fitting_) / watched_;
  if (share < 0.3) price_ = std::min(price_ * 1.05, first_price_ * kPriceRange);
  if (share > 0.6) price_ = std::max(price_ / 1.05, first_price_ / kPriceRange);
  fitting_ = watched_ = 0;
}

void ReplaySearch::anneal(std::int64_t moves, double heat) {
  if (candidates_.empty()) return;
  restore(best_);
  double now = energy();
  double temperature = 0;
  std::int64_t remembered = -1, replays = 0;
  for (std::int64_t move = 0; move < moves; ++move) {
    if (move % 64 == 0) {
      if (late()) break;
      const double done = static_cast<double>(move) / static_cast<double>(moves);
      temperature = heat * typical_ns_ * std::pow(1e-3, done);
    }
    changes_.clear();
    propose();
    const double next = changes_.empty() ? now : energy();
    if (next <= now || uniform() < std::exp((now - next) / temperature)) {
      if (!changes_.empty() && (move - remembered) * kMovesPerCopy >= replays && improves()) {
        remember();
        remembered = move;
        replays = static_cast<std::int64_t>(best_.size());
      }
    } else {
      undo();
    }
    adjustPrice();
    now = energy();
  }
  if (improves()) remember();
}

Schedule ReplaySearch::schedule() {
  restore(best_);
  return timeline_.schedule();
}

}  // namespace ebbtide::scheduler
