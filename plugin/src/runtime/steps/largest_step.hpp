// LargestStep: the largest peak of the steps without a budget, and whether a step as large was
// recorded. Budgets are named by recorded steps. Torch-free; whoever has it guards it.
//
//   larger than each recorded step ──► the next 2, 4, … 256 steps are recorded, once each
//   a step as large is recorded    ──► from 2 on again
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebbtide::plugin {

class LargestStep {
 public:
  using Bytes = std::int64_t;

  // A step has ended; no other step overlapped it. The peak is of live bytes. Returns how many of
  // the next steps to record for its sake.
  int note(Bytes peak_bytes, Bytes base_bytes, bool recorded) {
    if (peak_bytes > largest_bytes_) {
      largest_bytes_ = peak_bytes;
      base_bytes_ = base_bytes;
    }
    if (recorded) recorded_bytes_ = std::max(recorded_bytes_, peak_bytes);
    if (isAsLarge(largest_bytes_)) to_record_ = kFirst;
    if (recorded || isAsLarge(peak_bytes) || to_record_ > kMost) return 0;
    const int now = to_record_;
    to_record_ *= 2;
    return now;
  }
  // The largest step took so much more than each recorded step. 0: no step was recorded, or the
  // difference is within the margin of named budgets.
  Bytes unrecordedBytes() const {
    const Bytes more = largest_bytes_ - recorded_bytes_;
    return recorded_bytes_ > 0 && more >= kLeast ? more : 0;
  }
  Bytes baseBytes() const { return base_bytes_; }  // that the largest step began with

 private:
  static constexpr Bytes kSamePercent = 1, kLeast = 1 << 20;
  static constexpr int kFirst = 2, kMost = 256;  // steps

  bool isAsLarge(Bytes bytes) const {
    return bytes * 100 <= recorded_bytes_ * (100 + kSamePercent);
  }

  Bytes largest_bytes_ = 0, base_bytes_ = 0, recorded_bytes_ = 0;
  int to_record_ = kFirst;
};

}  // namespace ebbtide::plugin
