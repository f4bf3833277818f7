// Faults on demand (settings.hpp). Under the device's lock.
#pragma once

#include "device.hpp"

namespace emulated_gpu {

// Whether this creation of a page is the one to be refused.
bool refusePage();
// The error of a launch that is refused, or none; other processes may take a page meanwhile.
CUresult refuseLaunch(Device& device);
// The kernel that runs now may be the one that traps: the device is broken from then on.
void trapIfAsked(Device& device);

}  // namespace emulated_gpu
