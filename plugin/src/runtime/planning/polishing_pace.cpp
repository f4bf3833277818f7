#include "runtime/planning/polishing_pace.hpp"

#include <algorithm>

namespace ebbtide::plugin {

void PolishingPace::begin(Time longest) {
  asked_at_ = parts_.used();
  end_ = asked_at_ + longest;
  look_at_ = {};
}

bool PolishingPace::mayGoOn() {
  bool awaited = true;
  while (awaited && !hurries_ && parts_.left() < between_ + kLook) {
    waits_ = true;
    awaited = parts_.wait();
  }
  waits_ = false;
  return awaited;
}

bool PolishingPace::isOver() {
  const Time used = parts_.used();
  between_ = std::clamp(used - asked_at_, between_, kMostBetween);
  asked_at_ = used;
  if (used >= end_) return true;
  if (used < look_at_ || !parts_.left) return false;
  if (!mayGoOn()) return true;
  look_at_ = used + kLook;
  return false;
}

}  // namespace ebbtide::plugin
