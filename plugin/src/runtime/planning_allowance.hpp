// PlanningAllowance: how much of the processor planning may use: at any moment a second, and a
// fiftieth of what the process has used. What is planned without delay counts, and is not refused:
// the search for a better plan waits until there is enough. Torch-free.
//
//   a second ├ first plans, placing ┤ 2 % of the process's time ─► the search goes on ─► waits ─► …
//
// Thread rule: any, as far as its clocks are.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace ebbtide::plugin {

class PlanningAllowance {
 public:
  using Used = std::function<std::chrono::nanoseconds()>;  // processor time
  static constexpr std::chrono::nanoseconds kAtFirst = std::chrono::seconds(1);
  static constexpr std::int64_t kOneIn = 50;

  // `planning`: of all threads that plan.
  PlanningAllowance(Used process, Used planning)
      : process_(std::move(process)), planning_(std::move(planning)) {}

  // By now; less than nothing where what was not refused has used more.
  std::chrono::nanoseconds left() const { return kAtFirst + process_() / kOneIn - planning_(); }

 private:
  const Used process_, planning_;
};

}  // namespace ebbtide::plugin
