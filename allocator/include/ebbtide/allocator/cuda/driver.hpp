// Driver: the boundary to NVIDIA's driver. These tables hold every driver function that this
// library calls; tests fill them with functions of their own.
//
// The driver's library is not linked. In a process without it the tables are empty; that is a
// result, not an error.
//
// Thread rule: any thread; a filled table does not change.
#pragma once

#include <cuda.h>

#include <string>

namespace ebbtide::allocator::cuda {

// Devices, and their primary contexts, which the runtime and torch use, too.
struct DriverContexts {
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDeviceGet) deviceGet = nullptr;
  decltype(&::cuDeviceGetAttribute) deviceGetAttribute = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) primaryContextRetain = nullptr;
  decltype(&::cuCtxPushCurrent) push = nullptr;
  decltype(&::cuCtxPopCurrent) pop = nullptr;
  decltype(&::cuCtxSynchronize) synchronize = nullptr;
  decltype(&::cuCtxRecordEvent) recordEvent = nullptr;  // may be absent: CUDA 12.5
  decltype(&::cuMemGetInfo) memoryInfo = nullptr;       // of the current context's device
  decltype(&::cuThreadExchangeStreamCaptureMode) exchangeCaptureMode = nullptr;  // this thread's
};

// Addresses, and pages there: own ones, and those of other processes.
struct DriverPages {
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemAddressReserve) addressReserve = nullptr;
  decltype(&::cuMemAddressFree) addressFree = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) setAccess = nullptr;
  decltype(&::cuMemRetainAllocationHandle) retainHandle = nullptr;
  decltype(&::cuMemExportToShareableHandle) exportHandle = nullptr;
  decltype(&::cuMemImportFromShareableHandle) importHandle = nullptr;
};

// Events, and the streams that they are recorded on.
struct DriverEvents {
  decltype(&::cuEventCreate) create = nullptr;
  decltype(&::cuEventDestroy) destroy = nullptr;
  decltype(&::cuEventRecord) record = nullptr;
  decltype(&::cuEventQuery) query = nullptr;
  decltype(&::cuStreamIsCapturing) streamIsCapturing = nullptr;
};

struct Driver {
  DriverContexts contexts;
  DriverPages pages;
  DriverEvents events;
};

struct DriverResult {
  Driver driver;
  std::string problem;  // empty: the tables are filled; else one sentence
};

// Asks the runtime for each entry point, and libcuda.so.1 where it knows none.
DriverResult loadDriver();

}  // namespace ebbtide::allocator::cuda
