#include "retention_search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "ebbtide/scheduler/simulator.hpp"
#include "plan_choice.hpp"
#include "retention_cut.hpp"

namespace ebbtide::scheduler {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t next) {
  hash ^= next + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33);
}

std::uint64_t hashText(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char letter : text) hash = (hash ^ letter) * 0x100000001b3ULL;
  return hash;
}

// Steps simulated by one search object before it stops improving: some 30 seconds.
constexpr std::int64_t kMostWork = 2'000'000'000;

constexpr int kPricesTried = 18;

// Single values that fail in turn before a pass gives up: most of the rest would fail too.
constexpr int kMostFailures = 120;

// Random moves of one local search, however much work is left for it: some for each value that may
// be kept or dropped. Three times as many find nothing more on recorded steps.
constexpr std::size_t kMoves = 500, kMovesPerValue = 60;

// A schedule that recomputes longer than this many whole steps serves nobody, whatever its peak.
constexpr double kMostRecompute = 4.0;

// Times per byte within 4 % count as equal, so that measured noise does not part identical blocks.
int ratioBucket(Nanoseconds time, Bytes bytes) {
  return static_cast<int>(std::lround(
      25.0 * std::log((static_cast<double>(time) + 1.0) / (static_cast<double>(bytes) + 1.0))));
}

}  // namespace

RetentionSearch::RetentionSearch(const Graph& graph, Bytes budget_bytes,
                                 const PlannerOptions& options)
    : graph_(graph),
      budget_(budget_bytes),
      deadline_(options.deadline),
      random_(options.seed),
      builder_(graph),
      costs_(graph, builder_) {
  findPhases();
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const ValueId value = static_cast<ValueId>(id);
    if (builder_.droppable(value) && wantedByEvents(value)) movable_.push_back(value);
  }
  classify();
}

void RetentionSearch::findPhases() {
  const std::size_t ops = graph_.ops.size();
  phase_end_.assign(ops, static_cast<OpId>(ops));
  for (std::size_t id = ops; id-- > 0;) {
    if (id + 1 == ops) continue;
    const bool ends = graph_.ops[id].backward || graph_.ops[id + 1].backward;
    phase_end_[id] = ends ? static_cast<OpId>(id) + 1 : phase_end_[id + 1];
  }
  for (std::size_t begin = 0; begin < ops;) {
    const std::size_t end = static_cast<std::size_t>(phase_end_[begin]);
    bool saves = false;
    for (std::size_t id = begin; id < end && !saves; ++id) {
      for (ValueId output : graph_.ops[id].outputs) saves = saves || wantedByEvents(output);
    }
    if (!graph_.ops[begin].backward && saves) phases_.push_back({begin, end});
    begin = end;
  }
}

bool RetentionSearch::wantedByEvents(ValueId value) const {
  const OpId producer = graph_.values[value].producer;
  return producer != kNone && builder_.lastNeed(value) >= phase_end_[producer];
}

// Values are alike if their producers have the same name, sizes and neighbours; durations are left
// out, being noisy and given by the sizes.
void RetentionSearch::classify() {
  std::vector<std::uint64_t> own(graph_.ops.size());
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    const Op& op = graph_.ops[id];
    own[id] = hashText(op.name);
    for (const auto* list : {&op.inputs, &op.outputs}) {
      own[id] = mix(own[id], list->size());
      for (ValueId value : *list) {
        own[id] = mix(own[id], static_cast<std::uint64_t>(graph_.values[value].bytes));
      }
    }
  }
  std::unordered_map<std::uint64_t, std::size_t> index;
  for (ValueId value : movable_) {
    const OpId producer = graph_.values[value].producer;
    std::uint64_t hash = own[producer];
    for (ValueId input : graph_.ops[producer].inputs) {
      const OpId before = graph_.values[input].producer;
      hash = mix(hash, before == kNone ? 0 : own[before]);
    }
    const auto& outputs = graph_.ops[producer].outputs;
    const auto position = std::find(outputs.begin(), outputs.end(), value) - outputs.begin();
    hash = mix(hash, static_cast<std::uint64_t>(position));
    const auto [found, added] = index.try_emplace(hash, classes_.size());
    if (added) classes_.emplace_back();
    classes_[found->second].push_back(value);
  }
}

bool RetentionSearch::late() const {
  if (work_ >= kMostWork) return true;
  return deadline_ != std::chrono::steady_clock::time_point::max() &&
         std::chrono::steady_clock::now() >= deadline_;
}

ScoredRetention RetentionSearch::score(Retention retention) {
  const Schedule schedule = builder_.build(retention);
  const Simulation simulation = simulate(graph_, schedule);
  work_ += static_cast<std::int64_t>(schedule.steps.size() + graph_.ops.size());
  return {std::move(retention), simulation.peak_bytes, simulation.recompute_ns, simulation.peak_op};
}

bool RetentionSearch::better(const ScoredRetention& a, const ScoredRetention& b) const {
  if (feasible(a) != feasible(b)) return feasible(a);
  if (feasible(a)) {
    return std::pair(a.recompute_ns, a.peak_bytes) < std::pair(b.recompute_ns, b.peak_bytes);
  }
  return std::pair(a.peak_bytes, a.recompute_ns) < std::pair(b.peak_bytes, b.recompute_ns);
}

// Kept values that are live at the peak for later readers only, best first; among equals the
// earliest, since memory for its replay is free again by the time its block's backward comes.
std::vector<ValueId> RetentionSearch::dropCandidates(const ScoredRetention& scored,
                                                     const std::vector<bool>& tabu) {
  costs_.update(scored.retention);
  work_ += static_cast<std::int64_t>(graph_.ops.size() + movable_.size());
  std::vector<std::pair<int, ValueId>> ranked;
  for (ValueId value : movable_) {
    const Value& v = graph_.values[value];
    const bool live = v.producer <= scored.peak_op && v.natural_last < scored.peak_op + 1 &&
                      builder_.lastNeed(value) > scored.peak_op;
    if (!live || tabu[value] || v.bytes == 0 || !scored.retention.keep[value]) continue;
    ranked.emplace_back(ratioBucket(costs_.dropCost(value), v.bytes), value);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<ValueId> candidates;
  candidates.reserve(ranked.size());
  for (const auto& [ratio, value] : ranked) candidates.push_back(value);
  return candidates;
}

ScoredRetention RetentionSearch::dropUntilFits(ScoredRetention start, std::vector<bool> tabu) {
  ScoredRetention best = std::move(start);
  tabu.resize(graph_.values.size(), false);
  int failures = 0;
  double share = 0.5;  // of the missing bytes to free by one batch
  while (!feasible(best) && !late()) {
    const std::vector<ValueId> candidates = dropCandidates(best, tabu);
    if (candidates.empty()) break;
    const double wanted = share * static_cast<double>(best.peak_bytes - budget_);
    Retention next = best.retention;
    double freed = 0;
    std::size_t count = 0;
    while (count < candidates.size() && (count == 0 || freed < wanted)) {
      next.keep[candidates[count]] = false;
      freed += static_cast<double>(graph_.values[candidates[count]].bytes);
      ++count;
    }
    ScoredRetention scored = score(std::move(next));
    if (scored.peak_bytes < best.peak_bytes) {
      best = std::move(scored);
    } else if (count == 1) {
      tabu[candidates[0]] = true;
      if (++failures == kMostFailures) break;
    } else {
      share /= 4;
    }
  }
  return best;
}

// Recomputed copies that are live at the peak and may be held for later ops, largest first, and the
// first of those ops.
std::pair<std::vector<ValueId>, OpId> RetentionSearch::copiesAtPeak(const ScoredRetention& scored) {
  const Schedule schedule = builder_.build(scored.retention);
  const Simulation simulation = simulate(graph_, schedule);
  std::vector<bool> live(graph_.values.size(), false);
  OpId next = 0;
  for (std::size_t i = 0; i < simulation.peak_step; ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == Step::Kind::kDrop) live[step.id] = false;
    if (step.kind != Step::Kind::kRun) continue;
    const bool first = step.id == next;
    if (first) ++next;
    for (ValueId output : graph_.ops[step.id].outputs) live[output] = !first;
  }
  std::vector<ValueId> copies;
  for (ValueId value : movable_) {
    const bool early =
        !scored.retention.memo_from.empty() && scored.retention.memo_from[value] > next;
    if (!live[value] || early || !scored.retention.memo[value]) continue;
    if (graph_.values[value].bytes > 0) copies.push_back(value);
  }
  std::stable_sort(copies.begin(), copies.end(), [this](ValueId a, ValueId b) {
    return graph_.values[a].bytes > graph_.values[b].bytes;
  });
  return {std::move(copies), next + 1};
}

ScoredRetention RetentionSearch::shedCopies(ScoredRetention start) {
  ScoredRetention best = std::move(start);
  std::vector<bool> tabu(graph_.values.size(), false);
  int failures = 0;
  std::size_t batch = 16;
  while (!feasible(best) && !late()) {
    auto [copies, later] = copiesAtPeak(best);
    std::erase_if(copies, [&](ValueId value) { return tabu[value]; });
    if (copies.empty()) break;
    batch = std::min(batch, copies.size());
    Retention next = best.retention;
    if (next.memo_from.empty()) next.memo_from.assign(graph_.values.size(), 0);
    for (std::size_t i = 0; i < batch; ++i) next.memo_from[copies[i]] = later;
    ScoredRetention scored = score(std::move(next));
    const bool sane = static_cast<double>(scored.recompute_ns) <=
                      kMostRecompute * static_cast<double>(graph_.totalDurationNs());
    if (sane && scored.peak_bytes < best.peak_bytes) {
      best = std::move(scored);
    } else if (batch == 1) {
      tabu[copies[0]] = true;
      if (++failures == kMostFailures) break;
    } else {
      batch = (batch + 1) / 2;
    }
  }
  return best;
}

ScoredRetention RetentionSearch::shrink(ScoredRetention start) {
  ScoredRetention best = std::move(start);
  for (;;) {
    const Bytes before = best.peak_bytes;
    best = shedCopies(dropUntilFits(std::move(best)));
    if (feasible(best) || best.peak_bytes >= before || late()) return best;
  }
}

ScoredRetention RetentionSearch::keepBack(ScoredRetention start) {
  return keepBack(std::move(start), {}, kMostFailures);
}

ScoredRetention RetentionSearch::keepBack(ScoredRetention start, std::vector<bool> tabu,
                                          int most_failures) {
  ScoredRetention best = std::move(start);
  tabu.resize(graph_.values.size(), false);
  int failures = 0;
  std::size_t batch = 64;
  while (!late()) {
    costs_.update(best.retention);
    work_ += static_cast<std::int64_t>(graph_.ops.size() + movable_.size());
    std::vector<std::pair<int, ValueId>> ranked;
    for (ValueId value : movable_) {
      if (best.retention.keep[value] || tabu[value]) continue;
      const Nanoseconds saving = costs_.keepSaving(value);
      if (saving > 0) ranked.emplace_back(-ratioBucket(saving, graph_.values[value].bytes), -value);
    }
    if (ranked.empty()) break;
    batch = std::min(batch, ranked.size());
    std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(batch),
                      ranked.end());
    Retention next = best.retention;
    for (std::size_t i = 0; i < batch; ++i) next.keep[-ranked[i].second] = true;
    ScoredRetention scored = score(std::move(next));
    if (better(scored, best)) {
      best = std::move(scored);
      batch *= 2;
    } else if (batch > 1) {
      batch = (batch + 3) / 4;
    } else {
      tabu[-ranked[0].second] = true;
      if (++failures >= most_failures) break;
    }
  }
  return best;
}

Retention RetentionSearch::segmentSeed(std::size_t segments) const {
  Retention retention;
  retention.keep.assign(graph_.values.size(), false);
  retention.memo.assign(graph_.values.size(), true);
  for (const Phase& phase : phases_) keepAtCuts(phase, segments, retention);
  return retention;
}

void RetentionSearch::keepAtCuts(const Phase& phase, std::size_t segments,
                                 Retention& retention) const {
  // Bytes that cross the gap after each op for the sake of later ops of the phase.
  const std::size_t ops = phase.end - phase.begin;
  std::vector<Bytes> change(ops + 1, 0), saved(ops + 1, 0);
  std::vector<OpId> last_forward(graph_.values.size(), kNone);  // as offset in the phase
  for (std::size_t id = 0; id < ops; ++id) {
    for (ValueId input : graph_.ops[phase.begin + id].inputs) {
      last_forward[input] = static_cast<OpId>(id);
    }
  }
  std::vector<std::pair<ValueId, OpId>> members;  // with the offsets of their producers
  for (ValueId value : movable_) {
    const Value& v = graph_.values[value];
    const std::size_t producer = static_cast<std::size_t>(v.producer);
    if (producer < phase.begin || producer >= phase.end) continue;
    const std::size_t offset = producer - phase.begin;
    if (builder_.readByEvents(value)) saved[offset] += v.bytes;
    if (last_forward[value] == kNone) continue;
    members.emplace_back(value, static_cast<OpId>(offset));
    change[offset] += v.bytes;
    change[last_forward[value]] -= v.bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  std::partial_sum(saved.begin(), saved.end(), saved.begin());
  const double segment = static_cast<double>(saved[ops]) / static_cast<double>(segments);
  for (std::size_t cut = 1; cut < segments; ++cut) {
    // The narrowest gap within a quarter segment of the even cut.
    const auto at = [&](double share) {
      const Bytes level = static_cast<Bytes>(segment * (static_cast<double>(cut) + share));
      return std::lower_bound(saved.begin(), saved.end(), level) - saved.begin();
    };
    const auto most = static_cast<std::ptrdiff_t>(ops);
    const auto from = change.begin() + std::min<std::ptrdiff_t>(at(-0.25), most);
    const auto to = change.begin() + std::min<std::ptrdiff_t>(at(0.25) + 1, most + 1);
    const OpId gap = static_cast<OpId>(std::min_element(from, to) - change.begin());
    for (const auto& [value, offset] : members) {
      if (offset <= gap && last_forward[value] > gap) retention.keep[value] = true;
    }
  }
}

ScoredRetention RetentionSearch::searchPrices(const std::vector<bool>& free) {
  // Nanoseconds per byte, as a logarithm: from "keep all" to "keep nothing" for any sizes seen in
  // practice.
  double low = std::log(1e-7), high = std::log(1e3);
  ScoredRetention best = score(retentionAtPrice(graph_, builder_, std::exp(high), free));
  for (int i = 0; i < kPricesTried && !late(); ++i) {
    const double middle = (low + high) / 2;
    ScoredRetention scored = score(retentionAtPrice(graph_, builder_, std::exp(middle), free));
    (feasible(scored) ? high : low) = middle;
    if (better(scored, best)) best = std::move(scored);
  }
  return best;
}

void RetentionSearch::proposeClassMove(Move& move, std::size_t which) {
  // Members before a border are dropped, those after it kept, or all alike.
  const std::vector<ValueId>& members = classes_[which];
  const std::size_t border = pick(members.size() + 1);
  for (std::size_t i = 0; i < members.size(); ++i) move.keep.emplace_back(members[i], i >= border);
}

RetentionSearch::Move RetentionSearch::proposeMove(const Retention& retention) {
  Move move;
  const std::size_t kind = pick(10);
  if (kind < 2) {
    proposeClassMove(move, pick(classes_.size()));
  } else if (kind < 4) {  // trade one class for another
    proposeClassMove(move, pick(classes_.size()));
    proposeClassMove(move, pick(classes_.size()));
  } else if (kind < 6) {
    const ValueId value = movable_[pick(movable_.size())];
    move.keep.emplace_back(value, !retention.keep[value]);
  } else if (kind < 9) {  // trade a value for one nearby, or for any
    const std::size_t first = pick(movable_.size());
    const std::size_t reach =
        kind == 8 ? movable_.size() : std::min<std::size_t>(12, movable_.size());
    const std::size_t second = (first + 1 + pick(reach)) % movable_.size();
    for (std::size_t i : {first, second}) {
      move.keep.emplace_back(movable_[i], !retention.keep[movable_[i]]);
    }
  } else if (const std::size_t memo = pick(4); memo == 0) {
    move.flip_memo.push_back(movable_[pick(movable_.size())]);
  } else if (memo < 3) {  // recomputed copies serve one op each until some op, or never
    const ValueId value = movable_[pick(movable_.size())];
    const OpId end = phase_end_[graph_.values[value].producer];
    const OpId span = builder_.lastNeed(value) - end + 1;
    const OpId from = memo == 1 ? end + static_cast<OpId>(pick(static_cast<std::size_t>(span))) : 0;
    move.memo_from.emplace_back(value, from);
  } else {
    move.flip_memo = classes_[pick(classes_.size())];
  }
  return move;
}

bool RetentionSearch::acceptable(const ScoredRetention& next, const ScoredRetention& now,
                                 double slack) const {
  if (feasible(next) != feasible(now)) return feasible(next);
  if (!feasible(next)) {
    return static_cast<double>(next.peak_bytes) <=
           static_cast<double>(now.peak_bytes) * (1 + slack);
  }
  return static_cast<double>(next.recompute_ns) <=
         static_cast<double>(now.recompute_ns) * (1 + slack);
}

ScoredRetention RetentionSearch::localSearch(ScoredRetention start, std::int64_t work,
                                             double slack) {
  ScoredRetention best = start;
  ScoredRetention now = std::move(start);
  if (movable_.empty()) return best;
  const Effort effort{work_, work, kMoves + kMovesPerValue * movable_.size()};
  for (std::size_t moves = 0; effort.done(work_, moves) < 1 && !late(); ++moves) {
    if (feasible(best) && best.recompute_ns == 0) break;
    const double done = effort.done(work_, moves);
    Move move = proposeMove(now.retention);
    Retention next = now.retention;
    for (const auto& [value, keep] : move.keep) next.keep[value] = keep;
    for (ValueId value : move.flip_memo) next.memo[value] = !next.memo[value];
    if (!move.memo_from.empty()) next.memo_from.resize(graph_.values.size(), 0);
    for (const auto& [value, from] : move.memo_from) next.memo_from[value] = from;
    ScoredRetention scored = score(std::move(next));
    if (!acceptable(scored, now, slack * (1 - done))) continue;
    now = std::move(scored);
    if (better(now, best)) best = now;
  }
  return best;
}

PlanResult RetentionSearch::result(const ScoredRetention& scored, const std::string& planner) {
  return judgedPlan(graph_, budget_, builder_.build(scored.retention), planner);
}

}  // namespace ebbtide::scheduler
