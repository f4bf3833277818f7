// RunOp: what a step keeps of an op. Includes torch. Thread rule: the thread that records writes it
// while the op runs; afterwards the step's lock guards it.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/device_clock.hpp"
#include "plan/plan_follower.hpp"
#include "record/op_record.hpp"

namespace ebbtide::plugin {

struct RunOp {
  const OpInfo* info = nullptr;
  std::uint64_t signature = 0;
  std::uint64_t aligned_signature = 0;  // by the plan's numbers, once they are others
  std::uint64_t known_signature = 0;    // the plan's, of an op of it
  TimeSpan time;                        // that it took
  const char* kept_because = nullptr;   // nullptr: it may run again
  bool filled = false;                  // its memory was, with zeros, before it ran first
  bool on_plan = false;                 // one of the plan's
  bool updates_statistics = false;      // OpInfo: which are neither inputs nor outputs here
  bool finished = false;
  // Was the result of each of its replays compared, in a verification step and where contents are
  // defined? Nothing: it has not run again.
  std::optional<bool> compared;
  std::size_t log_position = 0;
  ValueId first_value = scheduler::kNone;  // of those made since it began
  UseId first_use = scheduler::kNone;
  std::unique_ptr<OpRecord> record;
  std::vector<ValueId> inputs;
  std::vector<std::pair<int, ValueId>> written;  // output epochs of arguments written in place
  std::vector<ValueId> outputs;
  // (Index among returned tensors, value)
  c10::SmallVector<std::pair<int, ValueId>, 2> output_of;
};

// Is its replay compared with the original?
inline bool verifies(const PlanFollower& follower, const RunOp& op) {
  return follower.verifies() && op.on_plan;
}

// Adds a word to a signature.
inline void mixInto(std::uint64_t& hash, std::uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
}

}  // namespace ebbtide::plugin
