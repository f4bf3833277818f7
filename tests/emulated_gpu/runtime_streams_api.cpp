// libcudart.so.13's functions: streams, events, captures, graphs, and the launch of kernels.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "api.hpp"
#include "captures.hpp"
#include "events.hpp"
#include "kernels.hpp"
#include "memory.hpp"
#include "seam.h"
#include "settings.hpp"

using namespace emulated_gpu;

// --- streams

RUNTIME cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const Lock lock(device_lock);
  return answer(newStream(stream, (flags & cudaStreamNonBlocking) == 0, priority));
}
RUNTIME cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
RUNTIME cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}
// What it was asked for is done all the same: its queue stays.
RUNTIME cudaStreamDestroy(cudaStream_t) {
  return answer(cudaSuccess);
}
RUNTIME cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const Lock lock(device_lock);
  *priority = resolved(stream)->priority;
  return answer(cudaSuccess);
}
RUNTIME cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(queryStream(stream));
}
RUNTIME cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(synchronizeStream(stream));
}
RUNTIME cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(device_lock);
  return answer(waitEvent(stream, event));
}
RUNTIME cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const Lock lock(device_lock);
  return answer(enqueue(stream, {.run = [=] { function(data); }, .name = "a host function"}));
}
RUNTIME cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                              unsigned) {
  const Lock lock(device_lock);
  const auto run = [=] { function(stream, cudaSuccess, data); };
  return answer(enqueue(stream, {.run = run, .name = "a host function"}));
}

// --- events

RUNTIME cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return answer(cuEventCreate(event, flags));
}
RUNTIME cudaEventCreate(cudaEvent_t* event) {
  return answer(cuEventCreate(event, 0));
}
RUNTIME cudaEventDestroy(cudaEvent_t event) {
  return answer(cuEventDestroy(event));
}
RUNTIME cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return answer(cuEventRecord(event, stream));
}
RUNTIME cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return answer(cuEventRecord(event, stream));
}
RUNTIME cudaEventQuery(cudaEvent_t event) {
  return answer(cuEventQuery(event));
}
RUNTIME cudaEventSynchronize(cudaEvent_t event) {
  return answer(cuEventSynchronize(event));
}
RUNTIME cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Lock lock(device_lock);
  return answer(elapsed(milliseconds, begin, end));
}
// Its work is done before the handle leaves the process: the other one finds it done.
RUNTIME cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  const Lock lock(device_lock);
  std::memset(handle, 0, sizeof *handle);
  return answer(synchronizeEvent(event));
}
RUNTIME cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t) {
  return answer(cuEventCreate(event, CU_EVENT_DISABLE_TIMING));
}

// --- captures and graphs

RUNTIME cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  auto* const of_driver = reinterpret_cast<CUstreamCaptureStatus*>(status);
  return answer(cuStreamIsCapturing(stream, of_driver));
}
RUNTIME cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return answer(cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)));
}
RUNTIME cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                 unsigned long long* id, cudaGraph_t* graph,
                                 const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                 std::size_t* count) {
  const Lock lock(device_lock);
  if (const cudaError_t error = cudaStreamIsCapturing(stream, status)) return error;
  const Capture* const capture = resolved(stream)->capture;
  if (id != nullptr) *id = capture == nullptr ? 0 : capture->id;
  if (graph != nullptr) *graph = capture == nullptr ? nullptr : capture->graph;
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaSuccess;
}
RUNTIME cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Lock lock(device_lock);
  return answer(beginCapture(stream, mode));
}
RUNTIME cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(device_lock);
  return answer(endCapture(stream, graph));
}
RUNTIME cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                      unsigned long long) {
  const Lock lock(device_lock);
  *exec = new CUgraphExec_st{graph->nodes};
  return answer(cudaSuccess);
}
RUNTIME cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(enqueueGraph(stream, std::make_shared<GraphRun>(exec->nodes), exec->lanes));
}
RUNTIME cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock(device_lock);
  delete graph;
  return answer(cudaSuccess);
}
RUNTIME cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const Lock lock(device_lock);
  delete exec;
  return answer(cudaSuccess);
}
RUNTIME cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, std::size_t* count) {
  const Lock lock(device_lock);
  *count = graph->nodes->size();
  return answer(cudaSuccess);
}

RUNTIME cudaProfilerStart() {
  return cudaSuccess;
}
RUNTIME cudaProfilerStop() {
  return cudaSuccess;
}

// --- kernels: what nvcc's stubs call

API void** __cudaRegisterFatBinary(void*) {
  return static_cast<void**>(std::calloc(1, sizeof(void*)));
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void** handle) {
  std::free(handle);
}
API char __cudaInitModule(void**) {
  return 1;
}
API void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
API void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*,
                                uint3*, dim3*, dim3*, int*) {
  const Lock lock(device_lock);
  registerKernel(stub, name);
}

namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> pushed;
  return pushed;
}

}  // namespace

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                         CUstream_st* stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                           void* stream) {
  const Configuration popped = configurations().back();
  configurations().pop_back();
  *grid = popped.grid;
  *block = popped.block;
  *shared_bytes = popped.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = popped.stream;
  return cudaSuccess;
}
API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
RUNTIME cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments, std::size_t,
                         cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(launchKernel(stub, grid, block, arguments, stream));
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                   std::size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}
RUNTIME cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(stub, grid, block, arguments, shared_bytes, stream);
}
RUNTIME cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
  return cudaLaunchKernel(stub, config->gridDim, config->blockDim, arguments,
                          config->dynamicSmemBytes, config->stream);
}
RUNTIME cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
RUNTIME cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes = 49152;
  return cudaSuccess;
}
RUNTIME cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
  *blocks = 2;
  return cudaSuccess;
}
RUNTIME cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                               std::size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

// --- for the libraries of operators and of host kernels

namespace {

std::vector<Access> accessesOf(const emulated_gpu_access* accesses, std::size_t count) {
  std::vector<Access> result;
  for (std::size_t i = 0; i < count; ++i) {
    const emulated_gpu_access& each = accesses[i];
    result.push_back({each.begin, each.bytes, each.writes != 0, each.rows, each.pitch});
  }
  return result;
}

}  // namespace

API cudaError_t emulated_gpu_enqueue(cudaStream_t stream, const char* name, void (*run)(void*),
                                     void (*end)(void*), void* data,
                                     const emulated_gpu_demand* demand,
                                     const emulated_gpu_access* accesses, std::size_t count) {
  const Lock lock(device_lock);
  const std::shared_ptr<void> owned(data, end);
  const auto body = [owned, run] {
    if (!settings().clock) run(owned.get());
  };
  return answer(enqueue(stream, {.run = body,
                                 .cost = kernelTime(*demand),
                                 .engine = Engine::kCompute,
                                 .accesses = accessesOf(accesses, count),
                                 .kernel = true,
                                 .name = name}));
}
API cudaError_t emulated_gpu_enqueue_when(cudaStream_t stream, int (*ready)(void*),
                                          void (*run)(void*), void (*end)(void*), void* data,
                                          double nanoseconds, const emulated_gpu_access* accesses,
                                          std::size_t count) {
  const Lock lock(device_lock);
  const std::shared_ptr<void> owned(data, end);
  return answer(enqueue(stream, {.run = [owned, run] { run(owned.get()); },
                                 .cost = nanoseconds,
                                 .engine = Engine::kCommunication,
                                 .accesses = accessesOf(accesses, count),
                                 .ready = [owned, ready] { return ready(owned.get()) != 0; },
                                 .kernel = true,
                                 .name = "an operation of NCCL"}));
}
API cudaStream_t emulated_gpu_stream(cudaStream_t stream) {
  const Lock lock(device_lock);
  return resolved(stream);
}
API unsigned long emulated_gpu_tasks(cudaStream_t stream) {
  const Lock lock(device_lock);
  return resolved(stream)->enqueued;
}
API void emulated_gpu_await(cudaStream_t stream, cudaStream_t other, unsigned long tasks) {
  const Lock lock(device_lock);
  const CUstream on = resolved(stream), first = resolved(other);
  if (on == first || on->capture != nullptr || first->done >= tasks) return;
  awaitTask(on, first, tasks);
}
API int emulated_gpu_look(cudaStream_t stream) {
  const Lock lock(device_lock);
  return lookAt(resolved(stream)) ? 1 : 0;
}
API double emulated_gpu_clock(cudaStream_t stream, double at_least) {
  const Lock lock(device_lock);
  Nanoseconds& clock = resolved(stream)->clock;
  clock = std::max(clock, at_least);
  return clock;
}
API void emulated_gpu_break(cudaStream_t stream) {
  const Lock lock(device_lock);
  resolved(stream)->device->broken = CUDA_ERROR_LAUNCH_FAILED;
}
API void emulated_gpu_drain(cudaStream_t stream) {
  const Lock lock(device_lock);
  drainAsAsked(resolved(stream));
}
API void emulated_gpu_ran(cudaStream_t stream, const char* name,
                          const emulated_gpu_access* accesses, std::size_t count) {
  const Lock lock(device_lock);
  const CUstream on = resolved(stream);
  orderTask(on, {.accesses = accessesOf(accesses, count), .name = name});
  orderHost(on->lane.seen);
}
API int emulated_gpu_order(void) {
  return settings().order ? 1 : 0;
}
API void emulated_gpu_host_access(const char* name, const void* begin, std::size_t bytes,
                                  int writes) {
  const Lock lock(device_lock);
  const Access access{begin, bytes, writes != 0};
  if (isPinned(begin)) orderHostAccess((std::string("the host's ") + name).c_str(), access);
}
API std::size_t emulated_gpu_order_reports(void) {
  const Lock lock(device_lock);
  return takeOrderReports();
}
API int emulated_gpu_clock_mode() {
  return settings().clock ? 1 : 0;
}
API int emulated_gpu_capturing(cudaStream_t stream) {
  const Lock lock(device_lock);
  return resolved(stream)->capture != nullptr ? 1 : 0;
}
API void emulated_gpu_read_settings() {
  const Lock lock(device_lock);
  readSettings();
}
API int emulated_gpu_whole_grid() {
  return settings().whole_grid ? 1 : 0;
}
API void emulated_gpu_register_kernel(const char* name, const std::size_t* sizes, std::size_t count,
                                      void (*run)(dim3, dim3, void**)) {
  const Lock lock(device_lock);
  registerHostKernel(name, {sizes, sizes + count}, run);
}
