#include "model/value_lives.hpp"

namespace ebbtide::scheduler {

ValueLives::ValueLives(const Trace& trace)
    : freed_at_(trace.blocks.size(), kNone),
      last_reference_(trace.values.size(), kNone),
      released_at_(trace.values.size(), kNone),
      to_release_(trace.values.size(), 0) {
  for (const ValueId v : trace.use_value) {
    if (v != kNone) ++to_release_[v];
  }
}

void ValueLives::noteRelease(ValueId value, OpId op) {
  if (value == kNone) return;
  --to_release_[value];
  released_at_[value] = op;
}

void ValueLives::noteReleaseInGap(ValueId value) {
  if (value == kNone) return;
  --to_release_[value];
  released_in_gap_.push_back(value);
}

void ValueLives::endGap(OpId op) {
  for (const ValueId v : released_in_gap_) released_at_[v] = op;
  released_in_gap_.clear();
}

}  // namespace ebbtide::scheduler
