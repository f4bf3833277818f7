// Captures by CUDA's rules (CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture"),
// and graphs, whose nodes run in any order that their edges allow. Under the device's lock.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "device.hpp"

namespace emulated_gpu {

struct Node {
  Work work;
  std::vector<int> after;
};

struct Capture {
  CUgraph graph = nullptr;
  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  CUstream origin = nullptr;
  std::uint64_t thread = 0;
  bool invalid = false;
  std::set<CUstream> streams;
};

// One launch of a graph.
struct GraphRun {
  explicit GraphRun(std::shared_ptr<const std::vector<Node>> all);
  bool done() const { return left == 0; }
  // Takes a node by the schedule, of those whose predecessors are done; false: it is not ready.
  bool runOne();

  std::shared_ptr<const std::vector<Node>> nodes;
  std::vector<int> waits_for;  // predecessors that are not done, a node
  std::vector<int> ready;      // ascending
  std::size_t left = 0;
  Nanoseconds cost = 0;  // of what has run
};

// This thread's mode for calls that are unsafe while somebody captures.
cudaStreamCaptureMode& captureMode();

CUresult beginCapture(CUstream stream, cudaStreamCaptureMode mode);
CUresult endCapture(CUstream stream, CUgraph* graph);
CUstreamCaptureStatus captureStatus(CUstream stream);
// An error, and the capture is invalid, where this thread or the process captures in a mode that
// forbids it.
CUresult unsafeCall(const char* what);
// The same for what no capture of the device allows.
CUresult forbiddenInCapture(Device& device);
// The legacy stream must not be used while a stream that blocks is captured.
CUresult legacyInCapture(CUstream stream);

// Into the graph; the stream is captured.
CUresult captureWork(CUstream stream, Work work);
void captureRecord(CUstream stream, EventState& event);
// The stream joins the event's capture, or waits in it; an event of none is refused in a capture.
CUresult captureWait(CUstream stream, EventState& event);
// A captured event's state cannot be asked for.
CUresult capturedEvent(const EventState& event);

}  // namespace emulated_gpu

struct CUgraph_st {
  std::shared_ptr<std::vector<emulated_gpu::Node>> nodes =
      std::make_shared<std::vector<emulated_gpu::Node>>();
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<emulated_gpu::Node>> nodes;
  emulated_gpu::GraphLanes lanes = {};
};
