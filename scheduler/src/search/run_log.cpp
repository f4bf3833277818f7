#include "search/run_log.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

// First runs, and replays that make a copy which one of these reads. Readers come later, so from
// the end.
std::vector<bool> RunLog::neededRuns() {
  std::vector<bool> needed(runs_.size(), false);
  std::size_t reads_end = reads_.size(), copies_end = copies_.size();
  for (std::size_t i = runs_.size(); i-- > 0;) {
    const Run& run = runs_[i];
    needed[i] = run.first;
    for (std::size_t copy = run.copies_begin; copy < copies_end; ++copy) {
      if (copies_[copy].last_read != kNone) needed[i] = true;
    }
    for (std::size_t read = run.reads_begin; needed[i] && read < reads_end; ++read) {
      Copy& copy = copies_[reads_[read]];
      copy.last_read = std::max(copy.last_read, static_cast<std::int32_t>(i));
    }
    reads_end = run.reads_begin;
    copies_end = run.copies_begin;
  }
  return needed;
}

Schedule RunLog::withDrops(const std::vector<bool>& needed) const {
  // Per run, and before the first one: a list of entries.
  std::vector<std::int32_t> head(runs_.size() + 1, kNone), next;
  std::vector<ValueId> values;
  const auto addDrop = [&](std::int32_t run, ValueId value) {
    next.push_back(head[run + 1]);
    head[run + 1] = static_cast<std::int32_t>(values.size());
    values.push_back(value);
  };
  for (const Copy& copy : copies_) {
    if (copy.made_at != kNone && !needed[copy.made_at]) continue;
    const std::int32_t last = std::max(copy.made_at, copy.last_read);
    if (last != copy.overwritten_at || last == kNone) addDrop(last, copy.value);
  }
  for (const Redundant& made : redundant_) {
    const Copy& copy = copies_[made.copy];
    const bool gone = std::max(copy.made_at, copy.last_read) < made.run;
    if (needed[made.run] && gone) addDrop(made.run, copy.value);
  }
  Schedule schedule;
  for (std::size_t i = 0; i <= runs_.size(); ++i) {
    if (i > 0 && needed[i - 1]) schedule.steps.push_back({Step::Kind::kRun, runs_[i - 1].op});
    for (std::int32_t entry = head[i]; entry != kNone; entry = next[entry]) {
      schedule.steps.push_back({Step::Kind::kDrop, values[entry]});
    }
  }
  return schedule;
}

Schedule RunLog::schedule() {
  return withDrops(neededRuns());
}

}  // namespace ebbtide::scheduler
