// StepParts: what a step knows, for those who work on it: each part writes its own, and they refer
// to each other by number, so that a long chain ends flat.
//
//   StepRun ─► OpRecorder ─► ValueRecorder     BackwardRunner  Evictor
//                  └──────┬──────┴────────────────┬┘              │
//              WriteProtection       PlanDrops   Restorer         │
//                         └───────────────┴─────┬─────┴───────────┘
//                                           KeptValues: what stays, and why
//                                               ▼
//                                           ValueTable ─► Verifier, TrainedLeaves, OpLog
//
// and all ask PlanFollower, SavedTensors and KeptGraphs. Includes torch. Thread rule: `lock` guards
// all after it, and the plan's lists in the follower.
#pragma once

#include <cstdint>
#include <memory>

#include "device/torch/training_device.hpp"
#include "execute/op_log.hpp"
#include "execute/run_parts.hpp"
#include "execute/step_lock.hpp"
#include "execute/trained_leaves.hpp"
#include "execute/value_table.hpp"
#include "execute/verifier.hpp"
#include "memory/saved_tensors.hpp"
#include "observe/step_phases.hpp"
#include "plan/kept_graphs.hpp"
#include "plan/plan_follower.hpp"
#include "record/log/event_log.hpp"
#include "record/op_record.hpp"

namespace ebbtide::plugin {

struct StepParts {
  // `number`: of the run's steps. `log`: nullptr: the step is not recorded.
  StepParts(const RunParts& of, std::int64_t number, std::shared_ptr<EventLog> its_log);
  StepParts(const StepParts&) = delete;
  StepParts& operator=(const StepParts&) = delete;

  const RunParts run;
  const TrainingDevice& device = trainingDevice();
  const DeviceLanes::Lane lane = device.lanes.now();
  const std::shared_ptr<EventLog> log;
  const bool keeps_op_records;  // of ops that no plan foresees
  StepPhases phases;
  PlanFollower follower;
  mutable StepLock lock;
  Verifier verifier;
  OpLog ops;
  SavedTensors<TensorView> saved;
  TrainedLeaves leaves;
  KeptGraphs graphs;
  ValueTable values;
};

c10::Storage duplicateStorage(const c10::Storage& storage);

}  // namespace ebbtide::plugin
