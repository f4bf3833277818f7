// Driver: boundary to NVIDIA's driver. Every function of it that this library calls is in this
// table, and nowhere else; the tests fill one with functions of their own.
//
// The driver's library is not linked: a process without it finds the table empty, which is a
// result, not an error.
#pragma once

#include <cuda.h>

#include <string>

namespace ebbtide::allocator::cuda {

struct Driver {
  // Device and context. Contexts are the primary ones, which the runtime and torch use, too.
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDeviceGet) deviceGet = nullptr;
  decltype(&::cuDeviceGetAttribute) deviceGetAttribute = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) primaryContextRetain = nullptr;
  decltype(&::cuCtxPushCurrent) contextPush = nullptr;
  decltype(&::cuCtxPopCurrent) contextPop = nullptr;
  decltype(&::cuCtxSynchronize) contextSynchronize = nullptr;
  decltype(&::cuCtxRecordEvent) contextRecordEvent = nullptr;  // may be absent: CUDA 12.5
  decltype(&::cuMemGetInfo) memoryInfo = nullptr;              // of the current context's device
  // Addresses and pages.
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemAddressReserve) addressReserve = nullptr;
  decltype(&::cuMemAddressFree) addressFree = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) setAccess = nullptr;
  // Pages of other processes.
  decltype(&::cuMemRetainAllocationHandle) retainHandle = nullptr;
  decltype(&::cuMemExportToShareableHandle) exportHandle = nullptr;
  decltype(&::cuMemImportFromShareableHandle) importHandle = nullptr;
  // Streams and events.
  decltype(&::cuEventCreate) eventCreate = nullptr;
  decltype(&::cuEventDestroy) eventDestroy = nullptr;
  decltype(&::cuEventRecord) eventRecord = nullptr;
  decltype(&::cuEventQuery) eventQuery = nullptr;
  decltype(&::cuStreamIsCapturing) streamIsCapturing = nullptr;
  decltype(&::cuThreadExchangeStreamCaptureMode) exchangeCaptureMode = nullptr;
};

struct DriverResult {
  Driver driver;
  std::string problem;  // empty: the table is filled; else one sentence
};

// Asks the runtime for each entry point, and libcuda.so.1 where it knows none.
DriverResult loadDriver();

}  // namespace ebbtide::allocator::cuda
