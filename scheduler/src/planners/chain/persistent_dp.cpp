#include "planners/chain/persistent_dp.hpp"

#include <algorithm>

#include "planners/chain/min_plus.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::size_t kBlock = 1 << 15;  // times in a block of rows
constexpr std::int32_t kLeaf = 64;       // slots
constexpr std::size_t kAhead = 6;        // rows

}  // namespace

PersistentProgram::PersistentProgram(const ChainCosts& costs, const SlotGrid& grid,
                                     Nanoseconds most_ns, const std::function<bool()>& late)
    : grid_(grid), stages_(costs.stages()), sizes_(costs, grid, most_ns), bound_(sizes_.bound()) {
  for (std::size_t s = 0; s < stages_; ++s) lefts_.emplace_back(stages_ - s);
  if (stages_ == 0 || grid_.slots < 0) return;
  pools_.resize(stages_);
  best_.resize(static_cast<std::size_t>(grid_.slots) + 1);
  for (std::size_t t = 0; t < stages_; ++t) {
    if (late()) {
      for (auto& rows : lefts_) rows.assign(rows.size(), Row{});
      return;
    }
    beginColumn(t);
    for (std::size_t s = t + 1; s-- > 0;) fillRow(s, t);
  }
}

void PersistentProgram::beginColumn(std::size_t t) {
  column_.assign(stages_, Row{});
  column_times_.resize(stages_ * best_.size());
  column_next_ = column_times_.data();
  first_stage_.resize(stages_);
  inner_stage_.resize(stages_);
  for (std::size_t s = 0; s <= t; ++s) {
    first_stage_[s] = sizes_.runFirst(s, t);
    inner_stage_[s] = sizes_.runLater(s, t);
  }
}

// m_∅ of Theorem 4.8 and the sum of u_f, one stage further.
PersistentProgram::Forward PersistentProgram::through(const Forward& before, std::size_t s,
                                                      std::size_t stage, std::size_t t) const {
  return {std::max(before.slots, stage == s ? first_stage_[stage] : inner_stage_[stage]),
          before.time + sizes_.dropTime(stage, t)};
}

// Asks for what offerRange() will read first of a row that lies far away in memory.
void PersistentProgram::fetch(const Row& left) const {
  if (left.last < left.first) return;
  __builtin_prefetch(left.times + std::clamp(top_ - left.first, 0, left.last - left.first));
}

void PersistentProgram::fillRow(std::size_t s, std::size_t t) {
  end_ = top_ = grid_.slots;
  low_ = end_ + 1;
  offerSave(s, t);
  for (std::size_t which = 0; which < sizes_.partials(s); ++which) offerPartial(s, t, which);
  Forward forward;
  for (std::size_t c = s + 1; c <= t; ++c) {
    forward = through(forward, s, c - 1, t);
    if (forward.time >= bound_) break;
    while (top_ >= low_ && best_[top_] <= forward.time) --top_;
    if (forward.slots > top_) break;
    if (c + kAhead <= t) fetch(lefts_[s][c + kAhead - 1 - s]);
    offerCut(s, c, forward);
  }
  store(s, t);
}

// The option C_all: it sets the row's end, since where it takes no extra time nothing is better.
void PersistentProgram::offerSave(std::size_t s, std::size_t t) {
  const std::int32_t needed = sizes_.save(s, t);
  if (s == t) {
    if (needed > end_ || bound_ == 0) return;
    low_ = end_ = needed;
    top_ = needed - 1;
    best_[needed] = 0;
    return;
  }
  const Row& rest = row(s + 1, t);
  if (rest.last < rest.first) return;
  const std::int32_t saved = sizes_.saved(s);
  const std::int32_t from = std::max(needed, rest.first + saved);
  if (from > end_) return;
  const std::int32_t last = std::max(from, rest.last + saved);
  end_ = top_ = std::min(end_, last);
  low_ = from;
  for (std::int32_t slot = from; slot <= end_; ++slot) best_[slot] = at(s + 1, t, slot - saved);
}

// Saving less than ā, with replays in the stage's backward. Looked for where it can be the best.
void PersistentProgram::offerPartial(std::size_t s, std::size_t t, std::size_t which) {
  const std::int32_t time = sizes_.partialTime(s, t, which);
  std::int32_t from = sizes_.partialSave(s, t, which);
  std::int32_t rest_end = from - 1;  // from there on nothing else takes time
  if (s < t) {
    const Row& rest = row(s + 1, t);
    if (rest.last < rest.first) return;
    const std::int32_t saved = sizes_.partialSaved(s, which);
    from = std::max(from, rest.first + saved);
    if (time >= bound_ || from > top_) return;
    extendDown(from);
    rest_end = std::min(rest.last + saved, top_);
    if (from <= rest_end) {
      minPlus(&best_[from], rest.times + (from - saved - rest.first), time,
              static_cast<std::size_t>(rest_end - from) + 1);
    }
  }
  if (time >= bound_ || from > top_) return;
  extendDown(from);
  for (std::int32_t slot = std::max(from, rest_end + 1); slot <= top_ && best_[slot] > time;
       ++slot) {
    best_[slot] = time;
  }
}

void PersistentProgram::extendDown(std::int32_t slot) {
  while (low_ > slot) best_[--low_] = bound_;
}

// The option C_ck with the cut before stage c, for the slots where it can be the best.
void PersistentProgram::offerCut(std::size_t s, std::size_t c, const Forward& forward) {
  const Row& right = column_[c];
  const Row& left = lefts_[s][c - 1 - s];
  if (right.last < right.first || left.last < left.first) return;
  const std::int32_t kept = sizes_.input(c);
  const std::int32_t from = std::max({forward.slots, right.first + kept, left.first});
  if (from > top_) return;
  extendDown(from);
  const Cut cut{left, right, kept, static_cast<std::int32_t>(forward.time)};
  offerRange(cut, from, top_);
}

// Times fall as slots rise: an option that is no better at the range's end than the best at its
// start is useless in between.
void PersistentProgram::offerRange(const Cut& cut, std::int32_t from, std::int32_t to) {
  while (true) {
    const std::int32_t least = cut.rightAt(to);
    if (least >= best_[from] || least + cut.leftAt(to) >= best_[from]) return;
    if (to - from < kLeaf) break;
    const std::int32_t middle = from + (to - from) / 2;
    offerRange(cut, middle + 1, to);
    to = middle;
  }
  offerLeaf(cut, from, to);
}

void PersistentProgram::offerLeaf(const Cut& cut, std::int32_t slot, std::int32_t to) {
  const std::int32_t right_end = std::min(cut.right.last + cut.kept, to);
  const std::int32_t left_end = std::min(cut.left.last, to);
  const auto count = [&](std::int32_t end) { return static_cast<std::size_t>(end + 1 - slot); };
  const std::int32_t both_end = std::min(right_end, left_end);
  if (slot <= both_end) {
    minPlus(&best_[slot], cut.right.times + (slot - cut.kept - cut.right.first),
            cut.left.times + (slot - cut.left.first), cut.time, count(both_end));
    slot = both_end + 1;
  }
  if (slot <= right_end) {
    minPlus(&best_[slot], cut.right.times + (slot - cut.kept - cut.right.first), cut.time,
            count(right_end));
    slot = right_end + 1;
  } else if (slot <= left_end) {
    minPlus(&best_[slot], cut.left.times + (slot - cut.left.first), cut.time, count(left_end));
    slot = left_end + 1;
  }
  for (; slot <= to; ++slot) best_[slot] = std::min(best_[slot], cut.time);
}

void PersistentProgram::store(std::size_t s, std::size_t t) {
  while (low_ <= end_ && best_[low_] >= bound_) ++low_;
  if (low_ > end_) return;
  std::int32_t last = end_;
  while (last > low_ && best_[last - 1] == 0) --last;
  const std::size_t count = static_cast<std::size_t>(last - low_) + 1;
  std::copy_n(&best_[low_], count, column_next_);
  column_[s] = {low_, last, column_next_};
  column_next_ += count;
  lefts_[s][t - s] = {low_, last, pools_[s].add(&best_[low_], count)};
}

const std::int32_t* PersistentProgram::Pool::add(const std::int32_t* times, std::size_t count) {
  if (count > left) {
    left = std::max(kBlock, count);
    blocks.push_back(std::make_unique_for_overwrite<std::int32_t[]>(left));
    next = blocks.back().get();
  }
  std::int32_t* to = next;
  std::copy_n(times, count, to);
  next += count;
  left -= count;
  return to;
}

std::int32_t PersistentProgram::at(std::size_t s, std::size_t t, std::int32_t slots) const {
  const Row& times = row(s, t);
  if (slots < times.first || times.last < times.first) return bound_;
  return slots > times.last ? 0 : times.times[slots - times.first];
}

bool PersistentProgram::feasible(std::int32_t slots) const {
  return stages_ == 0 || at(0, stages_ - 1, slots) < bound_;
}

Nanoseconds PersistentProgram::extraNs(std::int32_t slots) const {
  return stages_ == 0 ? 0 : sizes_.toNs(at(0, stages_ - 1, slots));
}

std::int32_t PersistentProgram::stepBelow(std::int32_t slots) const {
  if (stages_ == 0 || !feasible(slots)) return -1;
  const std::int32_t time = at(0, stages_ - 1, slots);
  while (slots >= 0 && at(0, stages_ - 1, slots) == time) --slots;
  return slots >= 0 && feasible(slots) ? slots : -1;
}

// Does the partial save give the time of the row at `slots`?
bool PersistentProgram::isPartial(std::size_t s, std::size_t t, std::int32_t slots,
                                  std::size_t which) const {
  if (slots < sizes_.partialSave(s, t, which)) return false;
  const std::int32_t rest = s == t ? 0 : at(s + 1, t, slots - sizes_.partialSaved(s, which));
  return rest < bound_ && rest + sizes_.partialTime(s, t, which) == at(s, t, slots);
}

PersistentProgram::Choice PersistentProgram::choose(std::size_t s, std::size_t t,
                                                    std::int32_t slots) const {
  const std::int32_t time = at(s, t, slots);
  const std::int32_t rest = s == t ? 0 : at(s + 1, t, slots - sizes_.saved(s));
  if (slots >= sizes_.save(s, t) && rest == time) return {s};
  for (std::size_t which = 0; which < sizes_.partials(s); ++which) {
    if (isPartial(s, t, slots, which)) return {s, static_cast<std::int32_t>(which)};
  }
  std::int64_t dropped = 0;
  for (std::size_t c = s + 1; c <= t; ++c) {
    dropped += sizes_.dropTime(c - 1, t);
    const std::int32_t needed = c - 1 == s ? sizes_.runFirst(s, t) : sizes_.runLater(c - 1, t);
    if (slots < needed || dropped > time) break;
    const std::int32_t right = at(c, t, slots - sizes_.input(c));
    const std::int32_t left = at(s, c - 1, slots);
    if (right < bound_ && left < bound_ && dropped + right + left == time) return {c};
  }
  return {s};
}

ChainSchedule PersistentProgram::schedule(std::int32_t slots) const {
  using Kind = ChainStep::Kind;
  struct Task {  // stages s … t within slots; or, with slots -1, the backward of s
    std::size_t s, t;
    std::int32_t slots;
  };
  ChainSchedule steps;
  if (stages_ == 0) return steps;
  std::vector<Task> tasks = {{0, stages_ - 1, slots}};
  while (!tasks.empty()) {
    const auto [s, t, m] = tasks.back();
    tasks.pop_back();
    const std::int32_t stage = static_cast<std::int32_t>(s);
    if (m < 0) {
      steps.push_back({Kind::kBackward, stage});
      continue;
    }
    const auto [c, partial] = choose(s, t, m);
    if (c == s) {
      steps.push_back({Kind::kRunSave, stage, partial});
      const std::int32_t saved = partial == kNone
                                     ? sizes_.saved(s)
                                     : sizes_.partialSaved(s, static_cast<std::size_t>(partial));
      tasks.push_back({s, s, -1});
      if (s < t) tasks.push_back({s + 1, t, m - saved});
      continue;
    }
    steps.push_back({Kind::kRunKeep, stage});
    for (std::size_t run = s + 1; run < c; ++run) {
      steps.push_back({Kind::kRun, static_cast<std::int32_t>(run)});
    }
    tasks.push_back({s, c - 1, m});
    tasks.push_back({c, t, m - sizes_.input(c)});
  }
  return steps;
}

}  // namespace ebbtide::scheduler
