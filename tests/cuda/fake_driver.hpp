// A driver for the tests: a GPU whose memory is counted only, whose streams do nothing until a test
// says that they are done, and which refuses what a test wants refused. One at a time: the driver's
// functions carry no state of their own.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ebbtide/allocator/cuda/device.hpp"

namespace ebbtide::allocator::cuda::test {

inline constexpr Bytes kPage = Bytes{2} << 20;
inline constexpr int kDevices = 2;

struct FakeGpu {
  struct Mapping {
    std::size_t bytes;
    CUmemGenericAllocationHandle handle;
    std::set<int> readers;  // devices with access
  };
  struct Event {
    CUstream stream = nullptr;
    bool whole_context = false;
    bool recorded = false;
    long position = 0;  // of what was queued when it was recorded
  };

  // What a test sets.
  std::set<std::string> refused;  // names of functions that fail
  Bytes capacity_bytes = 16 * kPage;
  std::set<CUstream> capturing;
  bool is_virtual = true, rdma = true, shareable = true;
  std::function<void()> on_query;  // of an event

  // What a test looks at.
  std::map<CUdeviceptr, std::size_t> reservations;
  std::map<CUdeviceptr, Mapping> mappings;
  std::map<CUmemGenericAllocationHandle, int> handles;  // references: handle and mappings
  std::map<CUevent, Event> events;
  std::map<CUstream, long> queued, finished;  // kernels, by stream
  std::vector<CUcontext> contexts;            // this thread's stack
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUmemAllocationProp last_properties{};
  std::vector<std::string> calls;
  CUdeviceptr next_address = CUdeviceptr{1} << 40;
  CUmemGenericAllocationHandle next_handle = 1;
  std::uintptr_t next_event = 0x1000;

  Bytes usedBytes() const { return static_cast<Bytes>(handles.size()) * kPage; }
  bool isDone(const Event& event) const {
    if (!event.recorded) return true;
    if (!event.whole_context) {
      const auto at = finished.find(event.stream);
      return (at == finished.end() ? 0 : at->second) >= event.position;
    }
    for (const auto& [stream, count] : queued) {
      const auto at = finished.find(stream);
      if ((at == finished.end() ? 0 : at->second) < count) return false;
    }
    return true;
  }
  int count(const std::string& call) const {
    int found = 0;
    for (const std::string& made : calls) found += made == call ? 1 : 0;
    return found;
  }
};

inline FakeGpu* gpu = nullptr;

inline bool refuse(const char* call) {
  gpu->calls.emplace_back(call);
  return gpu->refused.contains(call);
}

inline void dropReference(CUmemGenericAllocationHandle handle) {
  const auto found = gpu->handles.find(handle);
  ASSERT_NE(found, gpu->handles.end()) << "a handle that is not there is released";
  if (--found->second == 0) gpu->handles.erase(found);
}

inline CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                       const CUmemAllocationProp* properties, unsigned long long) {
  gpu->last_properties = *properties;
  EXPECT_EQ(static_cast<Bytes>(bytes) % kPage, 0);
  if (refuse("create")) return CUDA_ERROR_NOT_PERMITTED;
  if (refuse("create shareable") && properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_NOT_PERMITTED;
  }
  if (gpu->usedBytes() + static_cast<Bytes>(bytes) > gpu->capacity_bytes) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = gpu->next_handle++;
  gpu->handles[*handle] = 1;
  return CUDA_SUCCESS;
}

inline CUresult map(CUdeviceptr at, std::size_t bytes, std::size_t,
                    CUmemGenericAllocationHandle handle, unsigned long long) {
  if (refuse("map")) return CUDA_ERROR_INVALID_VALUE;
  const auto after = gpu->mappings.lower_bound(at);
  EXPECT_TRUE(after == gpu->mappings.end() || after->first >= at + bytes) << "mapped twice";
  bool reserved = false;
  for (const auto& [begin, size] : gpu->reservations) {
    reserved |= at >= begin && at + bytes <= begin + size;
  }
  EXPECT_TRUE(reserved) << "mapped where nothing is reserved";
  gpu->mappings[at] = {.bytes = bytes, .handle = handle, .readers = {}};
  ++gpu->handles[handle];
  return CUDA_SUCCESS;
}

// As the driver: whole mappings only, and all of the range must be mapped.
inline CUresult unmap(CUdeviceptr at, std::size_t bytes) {
  if (refuse("unmap")) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUdeviceptr> found;
  for (std::size_t done = 0; done < bytes;) {
    const auto mapping = gpu->mappings.find(at + done);
    if (mapping == gpu->mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    found.push_back(mapping->first);
    done += mapping->second.bytes;
  }
  for (const CUdeviceptr begin : found) {
    dropReference(gpu->mappings[begin].handle);
    gpu->mappings.erase(begin);
  }
  return CUDA_SUCCESS;
}

inline CUresult setAccess(CUdeviceptr at, std::size_t bytes, const CUmemAccessDesc* access,
                          std::size_t count) {
  if (refuse("setAccess")) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [begin, mapping] : gpu->mappings) {
    if (begin < at || begin >= at + bytes) continue;
    for (std::size_t i = 0; i < count; ++i) mapping.readers.insert(access[i].location.id);
  }
  return CUDA_SUCCESS;
}

inline CUresult deviceAttribute(int* value, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = gpu->is_virtual;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      *value = gpu->rdma;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      *value = gpu->shareable;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

inline void fillDevice(Driver& driver) {
  driver.contexts.init = [](unsigned) {
    return refuse("init") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
  };
  driver.contexts.deviceGet = [](CUdevice* device, int ordinal) {
    *device = ordinal;
    return ordinal < kDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  };
  driver.contexts.deviceGetAttribute = deviceAttribute;
  driver.contexts.primaryContextRetain = [](CUcontext* context, CUdevice device) {
    if (refuse("primaryContextRetain")) return CUDA_ERROR_OUT_OF_MEMORY;
    *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(0x100 + device));
    return CUDA_SUCCESS;
  };
  driver.contexts.push = [](CUcontext context) {
    gpu->contexts.push_back(context);
    return CUDA_SUCCESS;
  };
  driver.contexts.pop = [](CUcontext* context) {
    *context = gpu->contexts.back();
    gpu->contexts.pop_back();
    return CUDA_SUCCESS;
  };
  driver.contexts.synchronize = [] {
    if (refuse("contextSynchronize")) return CUDA_ERROR_LAUNCH_FAILED;
    gpu->finished = gpu->queued;
    return CUDA_SUCCESS;
  };
  driver.contexts.recordEvent = [](CUcontext, CUevent event) {
    if (refuse("contextRecordEvent")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    gpu->events.at(event) = {.whole_context = true, .recorded = true};
    return CUDA_SUCCESS;
  };
  driver.contexts.memoryInfo = [](std::size_t* free, std::size_t* total) {
    if (refuse("memoryInfo")) return CUDA_ERROR_INVALID_CONTEXT;
    EXPECT_FALSE(gpu->contexts.empty()) << "asked without a context";
    *total = static_cast<std::size_t>(gpu->capacity_bytes);
    *free = static_cast<std::size_t>(gpu->capacity_bytes - gpu->usedBytes());
    return CUDA_SUCCESS;
  };
  driver.contexts.exchangeCaptureMode = [](CUstreamCaptureMode* mode) {
    std::swap(*mode, gpu->mode);
    return CUDA_SUCCESS;
  };
}

inline void fillMemory(Driver& driver) {
  driver.pages.granularity = [](std::size_t* bytes, const CUmemAllocationProp*,
                                CUmemAllocationGranularity_flags) {
    if (refuse("granularity")) return CUDA_ERROR_INVALID_VALUE;
    *bytes = static_cast<std::size_t>(kPage);
    return CUDA_SUCCESS;
  };
  driver.pages.addressReserve = [](CUdeviceptr* begin, std::size_t bytes, std::size_t alignment,
                                   CUdeviceptr, unsigned long long) {
    if (refuse("addressReserve")) return CUDA_ERROR_OUT_OF_MEMORY;
    gpu->next_address = (gpu->next_address + alignment - 1) / alignment * alignment;
    *begin = gpu->next_address;
    gpu->next_address += bytes + static_cast<std::size_t>(kPage);  // neighbours do not touch
    gpu->reservations[*begin] = bytes;
    return CUDA_SUCCESS;
  };
  driver.pages.addressFree = [](CUdeviceptr begin, std::size_t bytes) {
    EXPECT_EQ(gpu->reservations[begin], bytes);
    gpu->reservations.erase(begin);
    const auto mapping = gpu->mappings.lower_bound(begin);
    EXPECT_TRUE(mapping == gpu->mappings.end() || mapping->first >= begin + bytes)
        << "addresses are freed while pages are mapped there";
    return CUDA_SUCCESS;
  };
  driver.pages.create = create;
  driver.pages.release = [](CUmemGenericAllocationHandle handle) {
    dropReference(handle);
    return CUDA_SUCCESS;
  };
  driver.pages.map = map;
  driver.pages.unmap = unmap;
  driver.pages.setAccess = setAccess;
  driver.pages.retainHandle = [](CUmemGenericAllocationHandle* handle, void* address) {
    const auto found = gpu->mappings.find(reinterpret_cast<CUdeviceptr>(address));
    if (found == gpu->mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    *handle = found->second.handle;
    ++gpu->handles[*handle];
    return CUDA_SUCCESS;
  };
}

inline void fillEvents(Driver& driver) {
  driver.events.create = [](CUevent* event, unsigned flags) {
    if (refuse("eventCreate")) return CUDA_ERROR_OUT_OF_MEMORY;
    EXPECT_EQ(flags, CU_EVENT_DISABLE_TIMING);
    EXPECT_FALSE(gpu->contexts.empty()) << "made without a context";
    *event = reinterpret_cast<CUevent>(gpu->next_event += 0x10);
    gpu->events[*event] = {};
    return CUDA_SUCCESS;
  };
  driver.events.destroy = [](CUevent event) {
    EXPECT_EQ(gpu->events.erase(event), 1U);
    return CUDA_SUCCESS;
  };
  driver.events.record = [](CUevent event, CUstream stream) {
    if (refuse("eventRecord")) return CUDA_ERROR_INVALID_HANDLE;
    EXPECT_FALSE(gpu->capturing.contains(stream)) << "recorded into a graph";
    gpu->events.at(event) = {.stream = stream, .recorded = true, .position = gpu->queued[stream]};
    return CUDA_SUCCESS;
  };
  driver.events.query = [](CUevent event) {
    if (refuse("eventQuery")) return CUDA_ERROR_LAUNCH_FAILED;
    EXPECT_EQ(gpu->mode, CU_STREAM_CAPTURE_MODE_RELAXED) << "would break another thread's capture";
    if (gpu->on_query) gpu->on_query();
    return gpu->isDone(gpu->events.at(event)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
  driver.events.streamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* state) {
    *state = gpu->capturing.contains(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                             : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
}

inline Driver fakeDriver() {
  Driver driver;
  fillDevice(driver);
  fillMemory(driver);
  fillEvents(driver);
  return driver;
}

// Checks at its end that nothing of the fake GPU is left over.
class FakeGpuTest : public ::testing::Test {
 protected:
  FakeGpuTest() { gpu = &fake_; }
  ~FakeGpuTest() override {
    EXPECT_TRUE(fake_.contexts.empty()) << "a context was left current";
    EXPECT_EQ(fake_.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    gpu = nullptr;
  }

  Device open(int ordinal = 0) {
    DeviceResult result = openDevice(driver_, ordinal);
    EXPECT_TRUE(result.device.has_value()) << result.problem;
    return *result.device;
  }
  static CUstream stream(std::uintptr_t number) {
    return reinterpret_cast<CUstream>(number * 0x100);
  }

  FakeGpu fake_;
  Driver driver_ = fakeDriver();
};

}  // namespace ebbtide::allocator::cuda::test
