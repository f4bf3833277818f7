// PlanningAllowance: how much processor time planning may have used at any moment: one second, and
// a fiftieth of what the process has used. Urgent planning counts, but is never refused. The search
// for a better plan waits until enough is left. Torch-free.
//
//   a second ├ first plans, placing ┤ 2 % of the process's time ─► the search goes on ─► waits ─► …
//
// Thread rule: any thread that its clocks allow.
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

  // By now; negative where urgent planning has used more.
  std::chrono::nanoseconds left() const { return kAtFirst + process_() / kOneIn - planning_(); }

 private:
  const Used process_, planning_;
};

}  // namespace ebbtide::plugin
