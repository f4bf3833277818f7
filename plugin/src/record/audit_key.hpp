// Audit keys: an op and everything but contents that may change what it gives or whether it
// repeats. Equal in every process. Includes torch.
//
// In it: operator and overload; of each tensor type, sizes, strides, offset, whether it requires
// grad and which arguments share a storage; numbers, texts and lists as they are; that there is a
// generator, not its state; GlobalState, gradient mode, autocast and whether denormals are flushed.
// Not in it: value ids, so that the same op of another block has the same key.
#pragma once

#include <ATen/core/ivalue.h>

#include "record/op_info.hpp"
#include "verify/audit_cache.hpp"

namespace ebbtide::plugin {

// Before the op runs. 0: of another library, or an argument is of a kind that cannot be told from
// others.
AuditKey auditKey(const OpInfo& info, c10::ArrayRef<const c10::IValue> arguments);

}  // namespace ebbtide::plugin
