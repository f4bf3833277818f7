// libcuda.so.1's functions, as far as torch and Ebbtide ask for them.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "api.hpp"
#include "captures.hpp"
#include "events.hpp"
#include "memory.hpp"
#include "settings.hpp"

using namespace emulated_gpu;

namespace {

Handle* handleOf(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<Handle*>(handle);
}

CUmemGenericAllocationHandle named(Handle* handle) {
  return reinterpret_cast<CUmemGenericAllocationHandle>(handle);
}

bool exists(CUdevice device) {
  return device >= 0 && device < deviceCount();
}

void* ownFunction(const char* name) {
  static void* const own = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  }();
  for (const char* const suffix : {"_v3", "_v2", ""}) {
    if (void* const found = dlsym(own, (std::string(name) + suffix).c_str())) return found;
  }
  log("no driver function %s", name);
  return nullptr;
}

}  // namespace

// --- devices and contexts

DRIVER cuInit(unsigned) {
  return deviceCount() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
DRIVER cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
DRIVER cuDeviceGetCount(int* count) {
  *count = deviceCount();
  return CUDA_SUCCESS;
}
DRIVER cuDeviceGet(CUdevice* device, int ordinal) {
  if (!exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
DRIVER cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = attributeOf(which);
  return CUDA_SUCCESS;
}
DRIVER cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  const Lock lock(device_lock);
  if (!exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  makeActive(device(ordinal));
  *context = device(ordinal).context;
  return driverAnswer(CUDA_SUCCESS);
}
DRIVER cuDevicePrimaryCtxRelease(CUdevice) {
  return CUDA_SUCCESS;
}
DRIVER cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  const Lock lock(device_lock);
  if (!exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags != nullptr) *flags = 0;
  *active = device(ordinal).active ? 1 : 0;
  return CUDA_SUCCESS;
}
DRIVER cuCtxPushCurrent(CUcontext context) {
  pushedContexts().push_back(context);
  return CUDA_SUCCESS;
}
DRIVER cuCtxPopCurrent(CUcontext* context) {
  auto& pushed = pushedContexts();
  if (pushed.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = pushed.back();
  pushed.pop_back();
  return CUDA_SUCCESS;
}
DRIVER cuCtxGetCurrent(CUcontext* context) {
  const Lock lock(device_lock);
  const auto& pushed = pushedContexts();
  *context = nullptr;
  if (!pushed.empty()) {
    *context = pushed.back();
  } else if (deviceCount() > 0 && device(runtimeDevice()).active) {
    *context = device(runtimeDevice()).context;
  }
  return CUDA_SUCCESS;
}
DRIVER cuCtxSetCurrent(CUcontext context) {
  const Lock lock(device_lock);
  if (context != nullptr) runtimeDevice() = context->device->ordinal;
  if (!pushedContexts().empty()) pushedContexts().back() = context;
  return CUDA_SUCCESS;
}
DRIVER cuCtxSynchronize() {
  const Lock lock(device_lock);
  const CUresult result = synchronizeDevice(currentDevice());
  return driverAnswer(result);
}
DRIVER cuCtxRecordEvent(CUcontext context, CUevent event) {
  const Lock lock(device_lock);
  Device& of = context == nullptr ? currentDevice() : *context->device;
  if (const CUresult error = forbiddenInCapture(of)) return error;
  return driverAnswer(recordOfAll(event->state, of));
}

// --- memory

DRIVER cuMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(device_lock);
  HostTime::get().spend(timeTable().memory_info);
  const Device& of = currentDevice();
  *free = of.total_bytes - std::min(of.total_bytes, of.used_bytes);
  *total = of.total_bytes;
  return driverAnswer(CUDA_SUCCESS);
}
DRIVER cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                     CUmemAllocationGranularity_flags) {
  *bytes = kPageBytes;
  return settings().virtual_memory ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
DRIVER cuMemAddressReserve(CUdeviceptr* begin, std::size_t bytes, std::size_t alignment,
                           CUdeviceptr, unsigned long long) {
  const Lock lock(device_lock);
  if (!settings().virtual_memory) return CUDA_ERROR_NOT_SUPPORTED;
  return driverAnswer(reserveAddresses(begin, bytes, alignment));
}
DRIVER cuMemAddressFree(CUdeviceptr begin, std::size_t bytes) {
  const Lock lock(device_lock);
  return driverAnswer(freeAddresses(begin, bytes));
}
DRIVER cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                   const CUmemAllocationProp* properties, unsigned long long) {
  const Lock lock(device_lock);
  if (!settings().virtual_memory) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult error = unsafeCall("cuMemCreate")) return error;
  const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                         properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
                         exists(properties->location.id);
  if (bytes == 0 || bytes % kPageBytes != 0 || !on_device) return CUDA_ERROR_INVALID_VALUE;
  Device& of = device(properties->location.id);
  makeActive(of);
  if (of.broken != CUDA_SUCCESS) return of.broken;
  const bool shareable =
      properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  Handle* const created = createPages(of, bytes, shareable);
  if (created == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = named(created);
  return CUDA_SUCCESS;
}
DRIVER cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Lock lock(device_lock);
  release(handleOf(handle));
  return CUDA_SUCCESS;
}
DRIVER cuMemMap(CUdeviceptr begin, std::size_t bytes, std::size_t offset,
                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const Lock lock(device_lock);
  if (const CUresult error = unsafeCall("cuMemMap")) return error;
  if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return driverAnswer(mapPages(begin, bytes, handleOf(handle)));
}
DRIVER cuMemUnmap(CUdeviceptr begin, std::size_t bytes) {
  const Lock lock(device_lock);
  if (const CUresult error = unsafeCall("cuMemUnmap")) return error;
  return driverAnswer(unmapPages(begin, bytes));
}
DRIVER cuMemSetAccess(CUdeviceptr begin, std::size_t bytes, const CUmemAccessDesc*, std::size_t) {
  const Lock lock(device_lock);
  return driverAnswer(giveAccess(begin, bytes));
}
DRIVER cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const Lock lock(device_lock);
  Handle* const found = handleAt(reinterpret_cast<CUdeviceptr>(address));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++found->references;
  *handle = named(found);
  return CUDA_SUCCESS;
}
DRIVER cuMemExportToShareableHandle(void* descriptor, CUmemGenericAllocationHandle handle,
                                    CUmemAllocationHandleType type, unsigned long long) {
  const Lock lock(device_lock);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return driverAnswer(exportPage(static_cast<int*>(descriptor), *handleOf(handle)));
}
DRIVER cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* descriptor,
                                      CUmemAllocationHandleType type) {
  const Lock lock(device_lock);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Handle* imported = nullptr;
  const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
  if (const CUresult error = importPage(&imported, file)) return error;
  *handle = named(imported);
  return driverAnswer(CUDA_SUCCESS);
}
DRIVER cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                              CUmemGenericAllocationHandle handle) {
  const Lock lock(device_lock);
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = handleOf(handle)->device->ordinal;
  return CUDA_SUCCESS;
}
DRIVER cuPointerGetAttribute(void* result, CUpointer_attribute which, CUdeviceptr address) {
  const Lock lock(device_lock);
  Device* const of = deviceOf(reinterpret_cast<void*>(address));
  if (of == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(result) = of->ordinal;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(result) = of->context;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// --- events and streams

DRIVER cuEventCreate(CUevent* event, unsigned flags) {
  const Lock lock(device_lock);
  HostTime::get().spend(timeTable().event_life);
  *event = new CUevent_st;
  (*event)->state->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  (*event)->state->device = &currentDevice();
  return driverAnswer(CUDA_SUCCESS);
}
DRIVER cuEventDestroy(CUevent event) {
  const Lock lock(device_lock);
  HostTime::get().spend(timeTable().event_life);
  delete event;
  return CUDA_SUCCESS;
}
DRIVER cuEventRecord(CUevent event, CUstream stream) {
  const Lock lock(device_lock);
  return driverAnswer(recordEvent(event->state, stream));
}
DRIVER cuEventQuery(CUevent event) {
  const Lock lock(device_lock);
  return driverAnswer(queryEvent(event));
}
DRIVER cuEventSynchronize(CUevent event) {
  const Lock lock(device_lock);
  const CUresult result = synchronizeEvent(event);
  return driverAnswer(result);
}
DRIVER cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const Lock lock(device_lock);
  HostTime::get().spend(timeTable().capture_status);
  const CUstream on = resolved(stream);
  if (const CUresult error = legacyInCapture(on)) return error;
  *status = captureStatus(on);
  return driverAnswer(CUDA_SUCCESS);
}
DRIVER cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const auto before = static_cast<CUstreamCaptureMode>(captureMode());
  captureMode() = static_cast<cudaStreamCaptureMode>(*mode);
  *mode = before;
  return CUDA_SUCCESS;
}

// --- the rest

DRIVER cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
DRIVER cuGetProcAddress(const char* name, void** function, int, cuuint64_t,
                        CUdriverProcAddressQueryResult* state) {
  *function = ownFunction(name);
  const bool found = *function != nullptr;
  if (state != nullptr) {
    *state = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
RUNTIME cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                         unsigned long long,
                                         cudaDriverEntryPointQueryResult* state) {
  *function = ownFunction(name);
  const bool found = *function != nullptr;
  if (state != nullptr) {
    *state = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}
