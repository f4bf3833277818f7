#include "execute/step_parts.hpp"

#include <c10/core/StorageImpl.h>

#include <utility>

namespace ebbtide::plugin {
namespace {

// Memory that is not ours, or that Python knows: its free may need Python's lock.
bool isForeign(const c10::Storage& storage) {
  const bool in_python = storage.unsafeGetStorageImpl()->pyobj_slot()->load_pyobj() != nullptr;
  return in_python || !trainingDevice().blocks.isOurs(storage);
}

}  // namespace

StepParts::StepParts(const RunParts& of, std::int64_t number, std::shared_ptr<EventLog> its_log)
    : run(of),
      log(std::move(its_log)),
      keeps_op_records(of.drops.pressed() && device.contents.onHost()),
      phases(of.trace, number),
      lock(isForeign),
      verifier(device, of.spills, of.drops.costs().checksum, lock),
      values(of, device, log, ops, verifier, leaves) {}

c10::Storage duplicateStorage(const c10::Storage& storage) {
  EventLog::OursScope ours;
  const TrainingDevice& device = trainingDevice();
  c10::Storage duplicate = device.blocks.allocate(storage.nbytes());
  device.contents.copy(duplicate.mutable_data(), storage.data(),
                       static_cast<std::int64_t>(storage.nbytes()));
  return duplicate;
}

}  // namespace ebbtide::plugin
