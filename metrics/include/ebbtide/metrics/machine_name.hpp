#pragma once

#include <string>

namespace ebbtide::metrics {

std::string machineName();  // as gethostname() has it; empty where it has none

}  // namespace ebbtide::metrics
