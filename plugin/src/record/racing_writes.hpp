// RacingWrites: calls that a CPU's threads run in no order: they add to one place, or overwrite it,
// as they come. Replays may give other bits, and one that is equal proves nothing. Includes torch.
#pragma once

#include "record/op_info.hpp"

namespace ebbtide::plugin {

// `arguments`: of the call, which is on the host.
bool racesOnHost(const OpInfo& info, c10::ArrayRef<const c10::IValue> arguments);

}  // namespace ebbtide::plugin
