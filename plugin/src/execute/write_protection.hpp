// WriteProtection: before a write that the plan may not know, what replays to come read is
// duplicated. Includes torch.
//
// Thread rule: any thread that is about to write. It waits for another thread's restore, which may
// read what is written.
#pragma once

#include "execute/kept_values.hpp"
#include "execute/step_parts.hpp"

namespace ebbtide::plugin {

class WriteProtection {
 public:
  WriteProtection(StepParts& step, KeptValues& kept_values)
      : step_(step), kept_values_(kept_values) {}

  void protect(ValueId value);

 private:
  c10::Storage unwrittenCopy(const c10::Storage& present);

  StepParts& step_;
  KeptValues& kept_values_;
  TrainedMemory& trained_ = step_.run.trained;
  const RunLines& lines_ = step_.run.lines;
  const TrainingDevice& device_ = step_.device;
  const DeviceLanes::Lane lane_ = step_.lane;
  StepLock& lock_ = step_.lock;
  ValueTable& values_ = step_.values;
};

}  // namespace ebbtide::plugin
