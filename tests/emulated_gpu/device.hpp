// Devices, streams and events, and the one lock over all of it. A stream is a queue: what it was
// asked for runs in the thread that waits for it (lazy), at once (eager), or at a seeded later call
// (random).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "capacity.hpp"
#include "clock.hpp"
#include "device_lock.hpp"
#include "order.hpp"

namespace emulated_gpu {

struct Device;
struct Capture;
struct GraphRun;

struct Work {
  std::function<void()> run = {};  // empty: it only takes its place in the order
  Nanoseconds cost = 0;
  Engine engine = Engine::kNone;      // that it takes for so long
  std::vector<Access> accesses = {};  // empty: not told
  // So often it is not done yet when it is looked at: a kernel that takes long. Who waits has it
  // done.
  long looks = 0;
  // Asked at each look, and while somebody waits: what other processes do decides. Empty: at once.
  std::function<bool()> ready = {};
  // A kernel, which faults on demand may refuse or trap.
  bool kernel = false;
  const char* name = "work";  // as long as the process lives
};

struct EventState {
  CUstream stream = nullptr;  // null: never recorded
  std::uint64_t number = 0;   // done when the stream has done as many tasks
  Nanoseconds at = 0;
  bool timed = true;
  Device* device = nullptr;
  std::uint64_t capture = 0;   // of the capture that recorded it last; 0: none
  std::vector<int> nodes;      // of that capture, which it comes after
  int asked = 0;               // queries that heard "not ready"
  std::uint64_t asked_at = 0;  // timesAsked() at the last one
  Seen seen;                   // by the stream, where it was recorded
};

struct Task {
  Work work;
  CUstream awaited = nullptr;  // comes after its first `awaited_number` tasks
  std::uint64_t awaited_number = 0;
  std::shared_ptr<EventState> event;  // is recorded
  std::shared_ptr<GraphRun> graph;    // a launch; one node after the other
  Nanoseconds asked = 0;              // the host's time
};

struct Device {
  int ordinal = 0;
  std::size_t total_bytes = 0, used_bytes = 0;
  CUcontext context = nullptr;
  bool active = false;
  CUresult broken = CUDA_SUCCESS;  // a sticky error
  CUstream legacy = nullptr;
  CUstream collector = nullptr;  // waits for all streams where an event of the context is recorded
  std::vector<CUstream> streams;
  Capacity compute, to_device, to_host;  // timed
  Nanoseconds busy = 0;                  // with kernels, were each alone
  std::size_t most_used_bytes = 0;
};

extern DeviceLock device_lock;

int deviceCount();
Device& device(int ordinal);
// The device of this thread's context, active from now on.
Device& currentDevice();
void makeActive(Device& device);
// This thread's device of the runtime, and the contexts that it pushed.
int& runtimeDevice();
std::vector<CUcontext>& pushedContexts();
// The error of a device that trapped; each call of it answers so from then on.
CUresult stickyError();

CUstream resolved(CUstream stream);  // the legacy stream's names too
CUresult newStream(CUstream* stream, bool blocking, int priority);

// At the stream's end, or a node of the graph that is captured there.
CUresult enqueue(CUstream stream, Work work);
CUresult enqueueGraph(CUstream stream, std::shared_ptr<GraphRun> graph, GraphLanes& lanes);
// How often work was asked for: who queries again and nothing changed waits.
std::uint64_t timesAsked();
void awaitTask(CUstream stream, CUstream awaited, std::uint64_t number);
CUresult recordEvent(const std::shared_ptr<EventState>& event, CUstream stream);
CUresult recordOfAll(const std::shared_ptr<EventState>& event, Device& device);

// False: not done, and `wait` is false.
bool runUntil(CUstream stream, std::uint64_t number, bool wait);
void drain(CUstream stream);
void drainAll(Device& device);
// The host's time is the stream's, timed.
void waitUntilDone(const CUstream_st& stream);
// As a wait for the stream: the legacy one waits for those that block.
void drainAsAsked(CUstream stream);
// One look at the stream: true when nothing is left.
bool lookAt(CUstream stream);

}  // namespace emulated_gpu

struct CUstream_st {
  emulated_gpu::Device* device = nullptr;
  bool blocking = false, legacy = false;
  int priority = 0;
  std::deque<emulated_gpu::Task> queue;
  std::uint64_t enqueued = 0, done = 0;
  emulated_gpu::Nanoseconds clock = 0;
  std::deque<emulated_gpu::Nanoseconds> ends;  // of its last tasks, timed
  emulated_gpu::Capture* capture = nullptr;
  std::vector<int> capture_nodes;  // the next node comes after them
  emulated_gpu::Lane lane;
};
struct CUevent_st {
  std::shared_ptr<emulated_gpu::EventState> state = std::make_shared<emulated_gpu::EventState>();
};
struct CUctx_st {
  emulated_gpu::Device* device = nullptr;
};
