#include "planners/chain/floating_dp.hpp"

#include <algorithm>

#include "planners/chain/min_plus.hpp"

namespace ebbtide::scheduler {

FloatingProgram::FloatingProgram(const ChainCosts& costs, const SlotGrid& grid, Nanoseconds most_ns,
                                 const std::function<bool()>& late)
    : grid_(grid), stages_(costs.stages()), sizes_(costs, grid, most_ns) {
  if (stages_ == 0 || grid.slots < 0) return;
  times_.assign(index(0, 0, stages_) * width(), sizes_.bound());
  keeps_.resize(stages_ * stages_ * width());
  inner_.resize(stages_ * width());
  for (std::size_t l = 0; l < stages_; ++l) {
    for (std::size_t t = l + 1; t-- > 0;) {
      if (late()) {
        std::fill(times_.begin(), times_.end(), sizes_.bound());
        return;
      }
      for (std::size_t s = t + 1; s-- > 0;) fill(s, t, l);
      findKeeps(t, l);
    }
  }
}

// Rows lie by l, then t, then s: 1, 1+2, 1+2+3, … of them before each l.
std::size_t FloatingProgram::index(std::size_t s, std::size_t t, std::size_t l) const {
  return l * (l + 1) * (l + 2) / 6 + t * (t + 1) / 2 + s;
}

std::int32_t FloatingProgram::at(const State& state) const {
  if (state.slots < 0) return sizes_.bound();
  const std::int32_t slots = std::min(state.slots, grid_.slots);
  return times_[index(state.s, state.t, state.l) * width() + static_cast<std::size_t>(slots)];
}

void FloatingProgram::fill(std::size_t s, std::size_t t, std::size_t l) {
  if (s == t) offerSave(s, l);
  offerMoves(s, t, l);
  offerKeeps(s, t, l);
}

// to[m] = min(to[m], from[m - shift] + add) for m from `first` on. With a shift below 0 the row's
// end counts on.
void FloatingProgram::offerShifted(std::int32_t* to, const std::int32_t* from, std::int32_t shift,
                                   std::int32_t first, std::int32_t add) const {
  const std::int32_t begin = std::max(first, shift);
  const std::int32_t end = std::min(grid_.slots, grid_.slots + shift);
  if (begin <= end)
    minPlus(to + begin, from + (begin - shift), add, static_cast<std::size_t>(end - begin) + 1);
  for (std::int32_t m = std::max(begin, end + 1); m <= grid_.slots; ++m) {
    to[m] = std::min(to[m], from[grid_.slots] + add);
  }
}

void FloatingProgram::offerSave(std::size_t s, std::size_t l) {
  const std::int32_t needed = sizes_.save(s, l);
  std::int32_t* to = row(s, s, l);
  if (s < l) {
    offerShifted(to, row(s + 1, s + 1, l), sizes_.saved(s), needed, 0);
  } else if (needed <= grid_.slots && sizes_.bound() > 0) {
    std::fill(to + needed, to + width(), 0);
  }
}

void FloatingProgram::offerMoves(std::size_t s, std::size_t t, std::size_t l) {
  std::int64_t time = 0;
  std::int32_t needed = 0;
  for (std::size_t r = s + 1; r <= t; ++r) {
    time += sizes_.dropTime(r - 1, l);
    if (time >= sizes_.bound()) break;
    // Once s's own forward has run, its input is gone.
    needed = std::max(
        needed, r - 1 == s ? sizes_.runFirst(s, l) : sizes_.runLater(r - 1, l) - sizes_.input(s));
    offerShifted(row(s, t, l), row(r, t, l), sizes_.input(r) - sizes_.input(s), needed,
                 static_cast<std::int32_t>(time));
  }
}

void FloatingProgram::offerKeeps(std::size_t s, std::size_t t, std::size_t l) {
  std::int32_t* to = row(s, t, l);
  for (std::size_t next = t + 1; next <= l; ++next) {
    minPlus(to, &keeps_[(next * stages_ + s) * width()], row(s, t, next - 1), 0, width());
  }
}

// keeps_ of t' = t: the backward of l … t from some input after s's, which s's forward leads to.
void FloatingProgram::findKeeps(std::size_t t, std::size_t l) {
  for (std::size_t s = t; s-- > 0;) {
    std::int32_t* first = &keeps_[(t * stages_ + s) * width()];
    std::int32_t* later = &inner_[s * width()];
    const std::int32_t time = sizes_.dropTime(s, l);
    for (const auto& [to, needed] :
         {std::pair(first, sizes_.runFirst(s, l)), std::pair(later, sizes_.runLater(s, l))}) {
      std::fill(to, to + width(), sizes_.bound());
      offerShifted(to, row(s + 1, t, l), sizes_.input(s + 1), needed, time);
      if (s + 1 < t) offerShifted(to, &inner_[(s + 1) * width()], 0, needed, time);
    }
  }
}

bool FloatingProgram::feasible(std::int32_t slots) const {
  return stages_ == 0 || (!times_.empty() && at({0, 0, stages_ - 1, slots}) < sizes_.bound());
}

Nanoseconds FloatingProgram::extraNs(std::int32_t slots) const {
  return stages_ == 0 ? 0 : sizes_.toNs(at({0, 0, stages_ - 1, slots}));
}

std::int32_t FloatingProgram::stepBelow(std::int32_t slots) const {
  if (stages_ == 0 || !feasible(slots)) return -1;
  const std::int32_t time = at({0, 0, stages_ - 1, slots});
  while (slots >= 0 && at({0, 0, stages_ - 1, slots}) == time) --slots;
  return slots >= 0 && feasible(slots) ? slots : -1;
}

bool FloatingProgram::takeSave(const State& state, std::vector<Task>& tasks,
                               ChainSchedule& steps) const {
  const auto [s, t, l, m] = state;
  if (s != t || m < sizes_.save(s, l)) return false;
  const State rest{s + 1, s + 1, l, m - sizes_.saved(s)};
  if (s < l && at(rest) != at(state)) return false;
  steps.push_back({ChainStep::Kind::kRunSave, static_cast<std::int32_t>(s)});
  tasks.push_back({state, true});
  if (s < l) tasks.push_back({rest});
  return true;
}

bool FloatingProgram::takeMove(const State& state, std::vector<Task>& tasks,
                               ChainSchedule& steps) const {
  const auto [s, t, l, m] = state;
  std::int64_t time = 0;
  for (std::size_t r = s + 1; r <= t; ++r) {
    const std::int32_t needed =
        r - 1 == s ? sizes_.runFirst(s, l) : sizes_.runLater(r - 1, l) - sizes_.input(s);
    if (m < needed) return false;
    time += sizes_.dropTime(r - 1, l);
    const State moved{r, t, l, std::min(m - sizes_.input(r) + sizes_.input(s), grid_.slots)};
    if (at(moved) >= sizes_.bound() || time + at(moved) != at(state)) continue;
    for (std::size_t run = s; run < r; ++run) {
      steps.push_back({ChainStep::Kind::kRun, static_cast<std::int32_t>(run)});
    }
    tasks.push_back({moved});
    return true;
  }
  return false;
}

void FloatingProgram::takeKeep(const State& state, std::vector<Task>& tasks,
                               ChainSchedule& steps) const {
  const auto [s, t, l, m] = state;
  for (std::size_t next = t + 1; next <= l; ++next) {
    const State rest{s, t, next - 1, m};
    std::int64_t time = at(rest);
    for (std::size_t c = s + 1; c <= next; ++c) {
      if (m < (c - 1 == s ? sizes_.runFirst(s, l) : sizes_.runLater(c - 1, l))) break;
      time += sizes_.dropTime(c - 1, l);
      const State kept{c, next, l, m - sizes_.input(c)};
      if (at(kept) >= sizes_.bound() || time + at(kept) != at(state)) continue;
      steps.push_back({ChainStep::Kind::kRunKeep, static_cast<std::int32_t>(s)});
      for (std::size_t run = s + 1; run < c; ++run) {
        steps.push_back({ChainStep::Kind::kRun, static_cast<std::int32_t>(run)});
      }
      tasks.push_back({rest});
      tasks.push_back({kept});
      return;
    }
  }
}

ChainSchedule FloatingProgram::schedule(std::int32_t slots) const {
  ChainSchedule steps;
  if (stages_ == 0) return steps;
  std::vector<Task> tasks = {{{0, 0, stages_ - 1, slots}}};
  while (!tasks.empty()) {
    const Task task = tasks.back();
    tasks.pop_back();
    if (task.backward) {
      steps.push_back({ChainStep::Kind::kBackward, static_cast<std::int32_t>(task.state.s)});
      continue;
    }
    if (takeSave(task.state, tasks, steps) || takeMove(task.state, tasks, steps)) continue;
    takeKeep(task.state, tasks, steps);
  }
  return steps;
}

}  // namespace ebbtide::scheduler
