// PolishingPace: ends a search for a better plan by the processor time that it has used, for the
// idle class runs as little as others leave. Torch-free.
#pragma once

#include <chrono>

#include "base/processor_time.hpp"
#include "ebbtide/scheduler/search_pace.hpp"

namespace ebbtide::plugin {

class PolishingPace final : public scheduler::SearchPace {
 public:
  using Used = std::chrono::nanoseconds (*)() noexcept;  // by this thread

  explicit PolishingPace(Used used = &ProcessorTime::ofThread) : used_(used) {}

  void begin(std::chrono::nanoseconds longest) override { end_ = used_() + longest; }
  bool isOver() override { return used_() >= end_; }

 private:
  const Used used_;
  std::chrono::nanoseconds end_{};
};

}  // namespace ebbtide::plugin
