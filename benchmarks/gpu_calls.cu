// What CUDA's calls cost on this machine's GPU: of the host, of a stream, of the link. One JSON
// object on standard output.
//
// nvcc -std=c++20 -O2 -o gpu_calls gpu_calls.cu -lcuda && ./gpu_calls
//
// Each figure is the median of repeats. `trap` ends the context, so it comes last.

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kPage = 2 * kMiB;
constexpr int kCalls = 2000;

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
  }
}

void check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) {
    const char* name = nullptr;
    cuGetErrorName(result, &name);
    std::fprintf(stderr, "%s: %s\n", what, name == nullptr ? "unknown" : name);
    std::exit(1);
  }
}

#define CHECKED(call) check(call, #call)

__global__ void nothing() {}

__global__ void spin(std::int64_t nanoseconds) {
  std::uint64_t begin = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  for (std::uint64_t now = begin; now - begin < static_cast<std::uint64_t>(nanoseconds);) {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  }
}

__global__ void writeThenTrap(volatile int* mapped) {
  *mapped = 7;
  __threadfence_system();
  asm("trap;");
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of the host for one call, of `calls` in a row; the median of nine rows.
double hostSeconds(int calls, const std::function<void()>& call,
                   const std::function<void()>& between) {
  std::vector<double> rows;
  for (int row = 0; row < 9; ++row) {
    between();
    const double begin = now();
    for (int i = 0; i < calls; ++i) {
      call();
    }
    rows.push_back((now() - begin) / calls);
  }
  between();
  return median(rows);
}

void told(const char* name, double value, const char* unit) {
  static bool first = true;
  std::printf("%s\n  \"%s_%s\": %.4g", first ? "{" : ",", name, unit, value);
  std::fflush(stdout);
  first = false;
}

void waitForAll() {
  CHECKED(cudaDeviceSynchronize());
}

void eventsAndStreams(cudaStream_t stream, cudaStream_t other) {
  cudaEvent_t event = nullptr;
  cudaEvent_t timed = nullptr;
  CHECKED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECKED(cudaEventCreate(&timed));
  const auto us = [](const char* name, const std::function<void()>& call) {
    told(name, 1e6 * hostSeconds(kCalls, call, waitForAll), "us");
  };
  us("event_create_and_destroy", [] {
    cudaEvent_t made = nullptr;
    CHECKED(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    CHECKED(cudaEventDestroy(made));
  });
  us("event_record", [&] { CHECKED(cudaEventRecord(event, stream)); });
  us("timed_event_record", [&] { CHECKED(cudaEventRecord(timed, stream)); });
  us("event_query_done", [&] { CHECKED(cudaEventQuery(event)); });
  us("stream_wait_event", [&] { CHECKED(cudaStreamWaitEvent(other, event, 0)); });
  us("stream_query_idle", [&] { CHECKED(cudaStreamQuery(stream)); });
  us("stream_is_capturing", [&] {
    cudaStreamCaptureStatus status{};
    CHECKED(cudaStreamIsCapturing(stream, &status));
  });
  us("mem_get_info", [] {
    std::size_t free = 0;
    std::size_t total = 0;
    CHECKED(cudaMemGetInfo(&free, &total));
  });
  spin<<<1, 1, 0, stream>>>(200'000'000);
  CHECKED(cudaEventRecord(event, stream));
  const double begin = now();
  int asked = 0;
  while (asked < kCalls && cudaEventQuery(event) == cudaErrorNotReady) {
    ++asked;
  }
  told("event_query_not_ready", 1e6 * (now() - begin) / std::max(asked, 1), "us");
  waitForAll();
  CHECKED(cudaEventDestroy(event));
  CHECKED(cudaEventDestroy(timed));
}

void launches(cudaStream_t stream) {
  told("launch_host",
       1e6 * hostSeconds(
                 500, [&] { nothing<<<1, 1, 0, stream>>>(); }, waitForAll),
       "us");
  told("launch_and_wait",
       1e6 * hostSeconds(
                 500,
                 [&] {
                   nothing<<<1, 1, 0, stream>>>();
                   CHECKED(cudaStreamSynchronize(stream));
                 },
                 waitForAll),
       "us");
  // How many launches a busy stream takes before the host waits.
  spin<<<1, 1, 0, stream>>>(300'000'000);
  int taken = 0;
  for (; taken < 8000; ++taken) {
    const double begin = now();
    nothing<<<1, 1, 0, stream>>>();
    if (now() - begin > 0.02) {
      break;
    }
  }
  waitForAll();
  told("launches_before_the_host_waits", taken, "count");
}

/// What a small kernel, and an event beside it, takes of its stream: 4,000 of them behind a kernel
/// that lets them queue.
void streamCosts(cudaStream_t stream) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaEvent_t plain = nullptr;
  cudaEvent_t timed = nullptr;
  CHECKED(cudaEventCreate(&begin));
  CHECKED(cudaEventCreate(&end));
  CHECKED(cudaEventCreate(&timed));
  CHECKED(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
  const auto each = [&](const std::function<void()>& task) {
    std::vector<double> rows;
    for (int row = 0; row < 9; ++row) {
      spin<<<1, 1, 0, stream>>>(5'000'000);
      CHECKED(cudaEventRecord(begin, stream));
      for (int i = 0; i < 300; ++i) {
        task();
      }
      CHECKED(cudaEventRecord(end, stream));
      CHECKED(cudaEventSynchronize(end));
      float milliseconds = 0;
      CHECKED(cudaEventElapsedTime(&milliseconds, begin, end));
      rows.push_back(1e3 * milliseconds / 300);
    }
    return median(rows);
  };
  told("empty_kernel_on_stream", each([&] { nothing<<<1, 1, 0, stream>>>(); }), "us");
  told("kernel_and_event_on_stream", each([&] {
         nothing<<<1, 1, 0, stream>>>();
         CHECKED(cudaEventRecord(plain, stream));
       }),
       "us");
  told("kernel_and_timed_event_on_stream", each([&] {
         nothing<<<1, 1, 0, stream>>>();
         CHECKED(cudaEventRecord(timed, stream));
       }),
       "us");
  for (cudaEvent_t event : {begin, end, plain, timed}) {
    CHECKED(cudaEventDestroy(event));
  }
}

struct PageKind {
  CUmemAllocationProp wanted{};
  CUmemAccessDesc access{};
};

PageKind pagesOfThisDevice() {
  PageKind kind;
  kind.wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECKED(cuCtxGetDevice(&kind.wanted.location.id));
  kind.access.location = kind.wanted.location;
  kind.access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return kind;
}

void pages() {
  const PageKind kind = pagesOfThisDevice();
  constexpr int kPages = 256;
  CUdeviceptr base = 0;
  CHECKED(cuMemAddressReserve(&base, kPages * kPage, 0, 0, 0));
  std::vector<CUmemGenericAllocationHandle> handles(kPages);
  std::vector<double> created;
  std::vector<double> mapped;
  std::vector<double> opened;
  std::vector<double> openedTogether;
  std::vector<double> unmapped;
  std::vector<double> released;
  for (int row = 0; row < 5; ++row) {
    double begin = now();
    const auto took = [&begin](std::vector<double>& rows) {
      rows.push_back((now() - begin) / kPages);
      begin = now();
    };
    for (auto& handle : handles) {
      CHECKED(cuMemCreate(&handle, kPage, &kind.wanted, 0));
    }
    took(created);
    for (int i = 0; i < kPages; ++i) {
      CHECKED(cuMemMap(base + i * kPage, kPage, 0, handles[i], 0));
    }
    took(mapped);
    if (row % 2 == 0) {
      for (int i = 0; i < kPages; ++i) {
        CHECKED(cuMemSetAccess(base + i * kPage, kPage, &kind.access, 1));
      }
      took(opened);
    } else {
      CHECKED(cuMemSetAccess(base, kPages * kPage, &kind.access, 1));
      took(openedTogether);
    }
    for (int i = 0; i < kPages; ++i) {
      CHECKED(cuMemUnmap(base + i * kPage, kPage));
    }
    took(unmapped);
    for (const auto handle : handles) {
      CHECKED(cuMemRelease(handle));
    }
    took(released);
  }
  CHECKED(cuMemAddressFree(base, kPages * kPage));
  told("page_create", 1e6 * median(created), "us");
  told("page_map", 1e6 * median(mapped), "us");
  told("page_access", 1e6 * median(opened), "us");
  told("page_access_of_256_together", 1e6 * median(openedTogether), "us");
  told("page_unmap", 1e6 * median(unmapped), "us");
  told("page_release", 1e6 * median(released), "us");
}

/// Does an unmap wait for a kernel that runs?
void waitsOfFrees(cudaStream_t stream) {
  const auto beside = [&](const std::function<void()>& call) {
    spin<<<1, 1, 0, stream>>>(50'000'000);
    const double begin = now();
    call();
    const double spent = now() - begin;
    waitForAll();
    return 1e3 * spent;
  };
  void* block = nullptr;
  CHECKED(cudaMalloc(&block, 64 * kMiB));
  told("cuda_malloc_beside_50ms_kernel", beside([&] {
         void* more = nullptr;
         CHECKED(cudaMalloc(&more, 64 * kMiB));
         CHECKED(cudaFreeAsync(more, stream));
       }),
       "ms");
  told("cuda_free_beside_50ms_kernel", beside([&] { CHECKED(cudaFree(block)); }), "ms");
  void* pinned = nullptr;
  told("host_alloc_64mib_beside_50ms_kernel",
       beside([&] { CHECKED(cudaHostAlloc(&pinned, 64 * kMiB, 0)); }), "ms");
  told("host_free_64mib_beside_50ms_kernel", beside([&] { CHECKED(cudaFreeHost(pinned)); }), "ms");
  const PageKind kind = pagesOfThisDevice();
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  CHECKED(cuMemAddressReserve(&at, kPage, 0, 0, 0));
  told("page_create_map_access_beside_50ms_kernel", beside([&] {
         CHECKED(cuMemCreate(&handle, kPage, &kind.wanted, 0));
         CHECKED(cuMemMap(at, kPage, 0, handle, 0));
         CHECKED(cuMemSetAccess(at, kPage, &kind.access, 1));
       }),
       "ms");
  told("page_unmap_beside_50ms_kernel", beside([&] { CHECKED(cuMemUnmap(at, kPage)); }), "ms");
  CHECKED(cuMemRelease(handle));
  CHECKED(cuMemAddressFree(at, kPage));
}

void copies(cudaStream_t stream, cudaStream_t other) {
  constexpr std::int64_t kBytes = 512 * kMiB;
  double begin = now();
  char* host = nullptr;
  char* hostToo = nullptr;
  CHECKED(cudaHostAlloc(reinterpret_cast<void**>(&host), kBytes, 0));
  told("host_alloc_a_gib", (now() - begin) * 2, "s");
  CHECKED(cudaHostAlloc(reinterpret_cast<void**>(&hostToo), kBytes, 0));
  std::vector<char> pageable(kBytes, 1);
  char* device = nullptr;
  char* deviceToo = nullptr;
  CHECKED(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  CHECKED(cudaMalloc(reinterpret_cast<void**>(&deviceToo), kBytes));
  const auto rate = [&](const char* name, double bytes, const std::function<void()>& copy) {
    std::vector<double> rows;
    for (int row = 0; row < 7; ++row) {
      waitForAll();
      begin = now();
      copy();
      waitForAll();
      rows.push_back(bytes / (now() - begin) / 1e9);
    }
    told(name, median(rows), "gb_per_s");
  };
  rate("to_device", kBytes,
       [&] { CHECKED(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream)); });
  rate("to_host", kBytes,
       [&] { CHECKED(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, stream)); });
  rate("both_ways", 2.0 * kBytes, [&] {
    CHECKED(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
    CHECKED(cudaMemcpyAsync(hostToo, deviceToo, kBytes, cudaMemcpyDeviceToHost, other));
  });
  rate("pageable_to_device", kBytes, [&] {
    CHECKED(cudaMemcpyAsync(device, pageable.data(), kBytes, cudaMemcpyHostToDevice, stream));
  });
  rate("pageable_to_host", kBytes, [&] {
    CHECKED(cudaMemcpyAsync(pageable.data(), device, kBytes, cudaMemcpyDeviceToHost, stream));
  });
  rate("on_device_bytes_copied", kBytes, [&] {
    CHECKED(cudaMemcpyAsync(deviceToo, device, kBytes, cudaMemcpyDeviceToDevice, stream));
  });
  const auto small = [&](const char* name, std::int64_t bytes) {
    told(name,
         1e6 * hostSeconds(
                   200,
                   [&] {
                     CHECKED(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
                     CHECKED(cudaStreamSynchronize(stream));
                   },
                   waitForAll),
         "us");
  };
  small("to_host_16_bytes_waited_for", 16);
  small("to_host_64_kib_waited_for", 64 << 10);
  small("to_host_1_mib_waited_for", kMiB);
  CHECKED(cudaFreeHost(host));
  CHECKED(cudaFreeHost(hostToo));
  CHECKED(cudaFree(device));
  CHECKED(cudaFree(deviceToo));
}

/// After a trap: are words in mapped host memory there, and what fails?
void trap(cudaStream_t stream) {
  int* mapped = nullptr;
  CHECKED(cudaHostAlloc(reinterpret_cast<void**>(&mapped), 4096, cudaHostAllocMapped));
  int* device = nullptr;
  CHECKED(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), mapped, 0));
  *mapped = 0;
  writeThenTrap<<<1, 1, 0, stream>>>(device);
  const cudaError_t waited = cudaStreamSynchronize(stream);
  told("trap_error", waited, "code");
  told("trap_mapped_word", *static_cast<volatile int*>(mapped), "value");
  void* block = nullptr;
  told("trap_later_malloc", cudaMalloc(&block, kMiB), "code");
  told("trap_later_wait", cudaDeviceSynchronize(), "code");
}

}  // namespace

int main() {
  cudaDeviceProp properties{};
  CHECKED(cudaGetDeviceProperties(&properties, 0));
  std::fprintf(stderr, "%s\n", properties.name);
  CHECKED(cudaSetDevice(0));
  CHECKED(cudaFree(nullptr));
  CHECKED(cuInit(0));
  std::size_t free = 0;
  std::size_t total = 0;
  CHECKED(cudaMemGetInfo(&free, &total));
  told("in_use_with_a_context", static_cast<double>(total - free) / kMiB, "mib");
  told("multiprocessors", properties.multiProcessorCount, "count");
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  CHECKED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECKED(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  nothing<<<1, 1, 0, stream>>>();
  waitForAll();
  launches(stream);
  eventsAndStreams(stream, other);
  streamCosts(stream);
  pages();
  waitsOfFrees(stream);
  copies(stream, other);
  trap(stream);
  std::printf("\n}\n");
}
