// The order checker (EMULATED_GPU_ORDER=1): what a program asks for puts tasks in an order. It must
// order two tasks that touch the same bytes if one of them writes. Vector clocks hold the order. It
// looks at the calls, never at when a task runs, so an order that a schedule kept by chance is
// reported as well. Under the device's lock. The rules:
//
// - A stream is in order; a stream that waits for an event comes after what the event recorded; the
//   legacy stream comes after those that block, and they after it.
// - A graph's nodes are in the order of its edges. A launch comes after what its stream did, and
//   after the graph's launch before.
// - What the host waited for, or heard to be done (an event's or a stream's query), comes before
//   all that any thread asks for from then on: it is done. That one thread asked before another
//   orders nothing. Orders among host threads (a mutex, a queue) are not seen, so this holds for
//   the process: an allocator that queries in one thread hands the block to another. What is
//   ordered is never reported; what came after another thread's wait by luck is not, either.
// - Who unmaps, frees or reads memory on the host comes after what the host waited for, only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

struct CUstream_st;

namespace emulated_gpu {

struct Device;
struct Node;
struct Work;

// Bytes that a task reads or writes: `rows` runs of `bytes`, `pitch` apart.
struct Access {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
  std::size_t rows = 1, pitch = 0;
};

// The last task of each lane that comes before. A lane runs its tasks in order: a stream, or a
// chain of a graph's nodes.
using Seen = std::vector<std::uint64_t>;

struct Lane {
  int index = -1;  // from its first task on
  Seen seen = {};  // its own last task, too
};

// Of a graph that can be launched.
struct GraphLanes {
  std::vector<int> of_node = {};  // at its first launch
  Seen seen = {};                 // by the end of its last launch
};

// What is asked for next on the stream comes after the host, and by the legacy stream's rules.
void orderAsked(CUstream_st* stream);
void orderTask(CUstream_st* stream, const Work& work);
void orderGraph(CUstream_st* stream, GraphLanes& lanes, const std::vector<Node>& nodes);
// The stream comes after what was seen there: where an event was recorded.
void orderWait(CUstream_st* stream, const Seen& recorded);
// The host waited for it, or heard that it is done.
void orderHost(const Seen& done);
void orderHost(const Device& device);

// The host reads memory that a device can reach, or writes it, or takes it away.
void orderHostAccess(const char* what, const Access& access);
// These addresses mean other memory from now on.
void orderForget(const void* begin, std::size_t bytes);

// Reports that the process's exit status tells of; no longer of those.
std::size_t takeOrderReports();

}  // namespace emulated_gpu
