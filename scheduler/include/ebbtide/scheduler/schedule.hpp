// Schedule: the one form that every planner produces.
//
// A list of steps. Each op of the graph is run for the first time in program order (but see
// Graph::any_order); further runs are replays. `drop` ends the copy of a value that the schedule
// retains. If the program still holds the first copy, its bytes live until last_reference, but no
// later step may read it through us.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct Step {
  enum class Kind : std::uint8_t { kRun, kDrop, kOffload, kFetch };
  Kind kind = Kind::kRun;
  std::int32_t id = kNone;  // OpId for kRun, ValueId otherwise

  friend bool operator==(const Step&, const Step&) = default;
};

struct Schedule {
  std::vector<Step> steps;
};

std::string toJson(const Schedule& schedule);
// Throws std::invalid_argument that says what is wrong and where.
Schedule scheduleFromJson(const std::string& text);

}  // namespace ebbtide::scheduler
