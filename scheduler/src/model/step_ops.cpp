#include "model/step_ops.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

void StepOps::addFixed(Bytes bytes) {
  fixed_ += bytes;
  if (empty() || in_gap_) {
    gap_peak_ = std::max(gap_peak_, fixed_);
    return;
  }
  Op& op = made_.ops.back();
  op.fixed_bytes = std::max(op.fixed_bytes, fixed_);
  if (!op.backward && !op.waits)
    op.workspace_bytes = std::max(op.workspace_bytes, fixed_ - op_start_);
}

void StepOps::begin(Op op, OpId trace_op) {
  begun_ns_ = at_ns_;
  if (empty()) before_first_ = gap_peak_;
  op_start_ = fixed_;
  op.fixed_bytes = op.fixed_at_start = std::max<Bytes>(fixed_, 0);
  made_.ops.push_back(std::move(op));
  made_.event_of.push_back(event_);
  made_.trace_op_of.push_back(trace_op);
}

void StepOps::read(ValueId value) {
  std::vector<ValueId>& inputs = made_.ops.back().inputs;
  if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) inputs.push_back(value);
}

void StepOps::end() {
  endEvent();
  endGap();
}

// A backward event lasts until the next op or event begins: its kernels are not recorded one by
// one.
void StepOps::endEvent() {
  if (empty() || !made_.ops.back().backward) return;
  made_.ops.back().duration_ns = std::max<Nanoseconds>(0, at_ns_ - begun_ns_);
}

void StepOps::beginGap() {
  endGap();
  in_gap_ = true;
  gap_event_ = event_;
  gap_peak_ = gap_start_ = fixed_;
}

void StepOps::endGap() {
  if (!std::exchange(in_gap_, false)) return;
  if (gap_peak_ <= made_.ops.back().fixed_bytes) return;  // the event itself dominates it
  Op gap;
  gap.name = "backward";
  gap.backward = true;
  gap.fixed_bytes = gap_peak_;
  made_.ops.push_back(std::move(gap));
  made_.event_of.push_back(gap_event_);
  made_.trace_op_of.push_back(kNone);
}

StepOps::Made StepOps::take() {
  if (!empty()) {
    Bytes& first = made_.ops.front().fixed_bytes;
    first = std::max(first, before_first_);
  }
  return std::move(made_);
}

}  // namespace ebbtide::scheduler
