// BaseGrowth: what lives when a step begins, once the budget has been judged by such steps. A base
// that grows later (L-BFGS's history, kept outputs, a second network) is no reason to refuse a
// budget: it is said, and an allocation that fails says what it comes to. What two steps in a row
// begin with has grown; a large batch is there for one. The most of the last few steps counts: of
// the passes of one update (L-BFGS's) the first begins with less. But an allocation that fails may
// have no more to go by than how its own step began: a history grew for the first time. Torch-free;
// whoever has it guards it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ebbtide::plugin {

class BaseGrowth {
 public:
  using Bytes = std::int64_t;

  struct Found {
    std::int64_t from_step = 0, step = 0;
    Bytes from_bytes = 0, bytes = 0;

    Bytes grownBytes() const { return bytes - from_bytes; }
    bool isGrowth() const { return isGrowthBy(grownBytes()); }
    bool isGrowthBy(Bytes more) const { return more > 0 && more * 100 >= from_bytes; }
    // 0: it did not grow. Rounded up.
    Bytes perStepBytes() const {
      const std::int64_t steps = step - from_step;
      return grownBytes() <= 0 || steps <= 0 ? 0 : (grownBytes() + steps - 1) / steps;
    }
  };

  // Judged when this step began.
  void settle(std::int64_t step, Bytes base_bytes) {
    found_ = Found{step, step, base_bytes, base_bytes};
    last_ = {};
    last_.back() = {step, base_bytes};
    most_bytes_ = base_bytes;
    said_bytes_ = 0;
  }
  void forget() { found_.reset(); }

  // A step begins. True: it has grown by 1 % and 1 MiB, or to twice what was told before.
  bool note(std::int64_t step, Bytes base_bytes) {
    if (!found_) return false;
    std::rotate(last_.begin(), last_.begin() + 1, last_.end());
    last_.back() = {step, base_bytes, std::max<Bytes>(0, base_bytes - most_bytes_)};
    most_bytes_ = std::max(most_bytes_, base_bytes);
    Begin most;
    for (std::size_t i = 1; i < last_.size(); ++i) {
      const Begin& both = last_[i - 1].bytes < last_[i].bytes ? last_[i - 1] : last_[i];
      if (both.bytes >= most.bytes) most = both;
    }
    found_->step = std::max(most.step, found_->from_step);
    found_->bytes = most.bytes;
    const Bytes grown = found_->grownBytes();
    const bool news = isNews(grown) && (said_bytes_ == 0 || grown >= 2 * said_bytes_);
    if (news) said_bytes_ = grown;
    return news;
  }
  std::optional<Found> found() const { return found_; }  // nothing: not judged yet

  // What the last step began with above what was judged: growth, or a large batch.
  Bytes overBytes() const {
    return found_ ? std::max<Bytes>(0, last_.back().bytes - found_->from_bytes) : 0;
  }
  // The most by which one of the last few steps began with more than all before it; 0: it is no
  // news. It may be a large batch.
  Bytes riseBytes() const {
    Bytes most = 0;
    for (const Begin& begin : last_) most = std::max(most, begin.rise_bytes);
    return found_ && isNews(most) ? most : 0;
  }

 private:
  static constexpr Bytes kLeastBytes = 1 << 20;

  struct Begin {
    std::int64_t step = 0;
    Bytes bytes = 0;
    Bytes rise_bytes = 0;  // over the most before it
  };

  bool isNews(Bytes more) const { return more >= kLeastBytes && found_->isGrowthBy(more); }

  std::optional<Found> found_;
  std::array<Begin, 4> last_;  // the latest at the end; since it was settled
  Bytes most_bytes_ = 0;       // that a step began with since then
  Bytes said_bytes_ = 0;
};

}  // namespace ebbtide::plugin
