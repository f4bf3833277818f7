#include "device.hpp"

#include <algorithm>
#include <map>

#include "captures.hpp"
#include "faults.hpp"
#include "host_time.hpp"
#include "memory.hpp"
#include "operators_library.hpp"
#include "settings.hpp"

namespace emulated_gpu {

DeviceLock device_lock;

namespace {

std::uint64_t times_asked = 0;

std::vector<Device>& devices() {
  static auto* const all = [] {
    auto* const made = new std::vector<Device>(static_cast<std::size_t>(settings().devices));
    for (std::size_t i = 0; i < made->size(); ++i) {
      Device& each = (*made)[i];
      each.ordinal = static_cast<int>(i);
      each.total_bytes = settings().device_bytes / kPageBytes * kPageBytes;
      each.context = new CUctx_st{&each};
      each.legacy = new CUstream_st;
      each.legacy->device = &each;
      each.legacy->legacy = each.legacy->blocking = true;
      each.streams.push_back(each.legacy);
    }
    return made;
  }();
  return *all;
}

// Task by task: what is next is done, or is not to be done yet: nobody waits, or it is not ready.
bool runOne(CUstream stream, bool wait) {
  {
    Task& next = stream->queue.front();
    const std::uint64_t seen = device_lock.timesLetIn();
    if (next.awaited != nullptr && !runUntil(next.awaited, next.awaited_number, wait)) return false;
    if (device_lock.timesLetIn() != seen) return true;  // others were here: it may be done
    if (next.work.looks > 0 && !wait) {
      --next.work.looks;
      return false;
    }
    const bool whole = stream->device->broken == CUDA_SUCCESS;
    if (settings().timed() && next.work.ready) {  // it tells others when it came
      stream->clock = std::max(stream->clock, next.asked + timeTable().latency);
    }
    if (next.work.ready && whole && !next.work.ready()) return false;
    if (next.graph && !next.graph->done() && whole) {
      if (!next.graph->runOne()) return false;
      if (!next.graph->done()) return true;  // others may come between
    }
  }
  Task task = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (!settings().timed() && task.awaited != nullptr) {
    stream->clock = std::max(stream->clock, task.awaited->clock);
  }
  if (!settings().timed() && task.graph) stream->clock += task.graph->cost;
  // Nothing that is later in the order runs on a device that trapped.
  if (task.work.kernel) trapIfAsked(*stream->device);
  if (task.work.run && stream->device->broken == CUDA_SUCCESS) task.work.run();
  settings().timed() ? timeTask(*stream, task) : void(stream->clock += task.work.cost);
  ++stream->done;
  const auto& event = task.event;
  if (event && event->stream == stream && event->number == stream->done) event->at = stream->clock;
  return true;
}

// A full queue holds the host up until its first task is done.
void push(CUstream stream, Task task) {
  ++times_asked;
  if (settings().timed()) {
    const std::uint64_t most = settings().longest_queue;
    if (stream->enqueued >= most) {
      HostTime::get().stallUntil(endOf(*stream, stream->enqueued + 1 - most));
    }
    task.asked = HostTime::get().now();
  }
  stream->queue.push_back(std::move(task));
  ++stream->enqueued;
}

bool idle(CUstream stream) {
  return stream->done == stream->enqueued;
}

// The legacy stream comes after all that block, and they after it.
void orderWithLegacy(CUstream stream) {
  if (stream->legacy) {
    for (const CUstream other : stream->device->streams) {
      if (other != stream && other->blocking && !idle(other)) {
        push(stream, {{}, other, other->enqueued, nullptr, nullptr});
      }
    }
  } else if (stream->blocking && !idle(stream->device->legacy)) {
    const CUstream legacy = stream->device->legacy;
    push(stream, {{}, legacy, legacy->enqueued, nullptr, nullptr});
  }
}

// After each call that asks for work.
void advance(CUstream stream) {
  auto& all = stream->device->streams;
  while (stream->queue.size() > settings().longest_queue) {
    if (!runOne(stream, true)) device_lock.letOthersIn();
  }
  switch (settings().schedule) {
    case Schedule::kEager:
    case Schedule::kTimed:
      for (std::size_t i = 0; i < all.size(); ++i) runUntil(all[i], all[i]->enqueued, false);
      break;
    case Schedule::kLazy:
      break;
    case Schedule::kRandom: {
      if (randomNumber() % 4 != 0) break;
      const CUstream other = all[randomNumber() % all.size()];
      for (auto left = randomNumber() % 8; left > 0 && !other->queue.empty(); --left) {
        runOne(other, false);
      }
    }
  }
}

}  // namespace

int deviceCount() {
  return static_cast<int>(devices().size());
}
Device& device(int ordinal) {
  return devices().at(static_cast<std::size_t>(ordinal));
}

int& runtimeDevice() {
  thread_local int ordinal = 0;
  return ordinal;
}

std::vector<CUcontext>& pushedContexts() {
  thread_local std::vector<CUcontext> contexts;
  return contexts;
}

Device& currentDevice() {
  const auto& pushed = pushedContexts();
  const bool by_context = !pushed.empty() && pushed.back() != nullptr;
  Device& result = by_context ? *pushed.back()->device : device(runtimeDevice());
  makeActive(result);
  return result;
}

void makeActive(Device& device) {
  if (device.active) return;
  device.active = true;
  device.used_bytes += settings().context_bytes;
  installOperators();
}

std::uint64_t timesAsked() {
  return times_asked;
}

CUresult stickyError() {
  for (const Device& each : devices()) {
    if (each.broken != CUDA_SUCCESS) return each.broken;
  }
  return CUDA_SUCCESS;
}

CUstream resolved(CUstream stream) {
  const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
  return legacy || stream == CU_STREAM_PER_THREAD ? currentDevice().legacy : stream;
}

CUresult newStream(CUstream* stream, bool blocking, int priority) {
  *stream = new CUstream_st;
  (*stream)->device = &currentDevice();
  (*stream)->blocking = blocking;
  (*stream)->priority = priority;
  (*stream)->device->streams.push_back(*stream);
  return CUDA_SUCCESS;
}

CUresult enqueue(CUstream stream, Work work) {
  const CUstream on = resolved(stream);
  if (on->device->broken != CUDA_SUCCESS) return on->device->broken;
  if (const CUresult error = legacyInCapture(on)) return error;
  if (work.kernel) {
    if (const CUresult error = refuseLaunch(*on->device)) return error;
  }
  HostTime& host = HostTime::get();
  if (work.kernel) {
    host.spend(timeTable().launch);
    host.countLaunch();
  } else if (work.engine != Engine::kNone) {
    host.spend(timeTable().copy);
    host.countCopy();
  }
  if (on->capture != nullptr) return captureWork(on, std::move(work));
  orderTask(on, work);
  orderWithLegacy(on);
  Task task;
  task.work = std::move(work);
  push(on, std::move(task));
  advance(on);
  return CUDA_SUCCESS;
}

CUresult enqueueGraph(CUstream stream, std::shared_ptr<GraphRun> graph, GraphLanes& lanes) {
  const CUstream on = resolved(stream);
  if (on->device->broken != CUDA_SUCCESS) return on->device->broken;
  if (on->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // no child graphs here
  orderGraph(on, lanes, *graph->nodes);
  orderWithLegacy(on);
  Task task;
  task.work.cost = settings().timed() ? 0 : kLaunch;
  task.work.engine = Engine::kCompute;
  HostTime::get().spend(timeTable().launch);
  HostTime::get().countLaunch();
  task.graph = std::move(graph);
  push(on, std::move(task));
  advance(on);
  return CUDA_SUCCESS;
}

void awaitTask(CUstream stream, CUstream awaited, std::uint64_t number) {
  HostTime::get().spend(timeTable().event_wait);
  orderWithLegacy(stream);
  push(stream, {{}, awaited, number, nullptr, nullptr});
  advance(stream);
}

CUresult recordEvent(const std::shared_ptr<EventState>& event, CUstream stream) {
  const CUstream on = resolved(stream);
  HostTime::get().spend(event->timed ? timeTable().event_record_timed : timeTable().event_record);
  if (const CUresult error = legacyInCapture(on)) return error;
  if (event->device != on->device) return CUDA_ERROR_INVALID_HANDLE;
  if (on->capture != nullptr) {
    if (on->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    captureRecord(on, *event);
    return CUDA_SUCCESS;
  }
  orderWithLegacy(on);
  event->capture = 0;
  event->stream = on;
  event->number = on->enqueued + 1;
  event->asked = 0;
  orderAsked(on);
  event->seen = on->lane.seen;
  push(on, {{}, nullptr, 0, event, nullptr});
  advance(on);
  return CUDA_SUCCESS;
}

CUresult recordOfAll(const std::shared_ptr<EventState>& event, Device& device) {
  if (device.collector == nullptr) {
    device.collector = new CUstream_st;
    device.collector->device = &device;
    device.streams.push_back(device.collector);
  }
  for (const CUstream other : device.streams) {
    if (other != device.collector) orderWait(device.collector, other->lane.seen);
    if (other != device.collector && !idle(other)) {
      push(device.collector, {{}, other, other->enqueued, nullptr, nullptr});
    }
  }
  return recordEvent(event, device.collector);
}

bool runUntil(CUstream stream, std::uint64_t number, bool wait) {
  while (stream->done < number && !stream->queue.empty()) {
    if (runOne(stream, wait)) continue;
    if (!wait) return false;
    device_lock.letOthersIn();
  }
  return true;
}

void waitUntilDone(const CUstream_st& stream) {
  if (settings().timed()) HostTime::get().waitUntil(stream.clock);
}

void drain(CUstream stream) {
  runUntil(stream, stream->enqueued, true);
  waitUntilDone(*stream);
  orderHost(stream->lane.seen);
}

void drainAll(Device& device) {
  const CUstream_st* last = nullptr;  // to be done: the host waits once
  for (std::size_t i = 0; i < device.streams.size(); ++i) {
    const CUstream stream = device.streams[i];
    runUntil(stream, stream->enqueued, true);
    orderHost(stream->lane.seen);
    if (last == nullptr || stream->clock > last->clock) last = stream;
  }
  if (last != nullptr) waitUntilDone(*last);
  orderHost(device);
}

void drainAsAsked(CUstream stream) {
  if (stream->legacy) {
    const auto& all = stream->device->streams;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->blocking) drain(all[i]);
    }
  }
  drain(stream);
}

bool lookAt(CUstream stream) {
  if (!idle(stream)) runOne(stream, false);
  if (!idle(stream)) return false;
  if (settings().timed() && stream->clock > HostTime::get().now()) return false;
  orderHost(stream->lane.seen);
  return true;
}

}  // namespace emulated_gpu
