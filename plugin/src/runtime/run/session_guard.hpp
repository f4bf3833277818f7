// SessionGuard: guards what a Session knows, and what its parts know that has to fit that.
// Torch-free.
#pragma once

#include "base/guard.hpp"

namespace ebbtide::plugin {

class Session;

using SessionGuard = Guard<Session>;

}  // namespace ebbtide::plugin
