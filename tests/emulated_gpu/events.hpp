// What both interfaces, the driver's and the runtime's, ask of events and streams. Under the lock.
#pragma once

#include "device.hpp"

namespace emulated_gpu {

CUresult waitEvent(CUstream stream, CUevent event);
CUresult queryEvent(CUevent event);
CUresult synchronizeEvent(CUevent event);
CUresult elapsed(float* milliseconds, CUevent begin, CUevent end);
CUresult queryStream(CUstream stream);
CUresult synchronizeStream(CUstream stream);
CUresult synchronizeDevice(Device& device);

}  // namespace emulated_gpu
