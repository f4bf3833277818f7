#include "execute/op_log.hpp"

namespace ebbtide::plugin {
namespace {

constexpr const char* kFailed = "failed";

}  // namespace

RunOp& OpLog::begin(const StepLock::Held&, ValueId first_value, UseId first_use) {
  RunOp& op = ops_.emplace_back();
  op.first_value = first_value;
  op.first_use = first_use;
  return op;
}

void OpLog::addTo(const StepLock::Held&, scheduler::Trace& trace) {
  std::uint64_t signature = 0xcbf29ce484222325ULL;
  for (RunOp& op : ops_) {
    mixInto(signature, op.signature);
    const char* const kept = op.finished ? op.kept_because : kFailed;
    trace.ops.push_back({op.info->name, op.signature, op.time.nanoseconds(), kept == nullptr,
                         op.inputs, op.outputs, kept == nullptr ? "" : kept});
  }
  trace.signature = signature;
}

}  // namespace ebbtide::plugin
