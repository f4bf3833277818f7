// BaseGrowth: what lives when a step begins, once the budget has been judged by such steps. A base
// that grows later (L-BFGS's history, kept outputs, a second network) is no reason to refuse a
// budget: it is said, and an allocation that fails says what it comes to. Torch-free; whoever has
// it guards it.
#pragma once

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
    bool isGrowth() const { return grownBytes() > 0 && grownBytes() * 100 >= from_bytes; }
    // 0: it did not grow. Rounded up.
    Bytes perStepBytes() const {
      const std::int64_t steps = step - from_step;
      return grownBytes() <= 0 || steps <= 0 ? 0 : (grownBytes() + steps - 1) / steps;
    }
  };

  // Judged when this step began.
  void settle(std::int64_t step, Bytes base_bytes) {
    found_ = Found{step, step, base_bytes, base_bytes};
    said_bytes_ = 0;
  }
  void forget() { found_.reset(); }

  // A step begins. True: it has grown by 1 % and 1 MiB, or to twice what was told before.
  bool note(std::int64_t step, Bytes base_bytes) {
    if (!found_) return false;
    found_->step = step;
    found_->bytes = base_bytes;
    const Bytes grown = found_->grownBytes();
    const bool news = grown >= kLeastBytes && found_->isGrowth() &&
                      (said_bytes_ == 0 || grown >= 2 * said_bytes_);
    if (news) said_bytes_ = grown;
    return news;
  }
  std::optional<Found> found() const { return found_; }  // nothing: not judged yet

 private:
  static constexpr Bytes kLeastBytes = 1 << 20;

  std::optional<Found> found_;
  Bytes said_bytes_ = 0;
};

}  // namespace ebbtide::plugin
