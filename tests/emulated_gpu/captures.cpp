#include "captures.hpp"

#include <algorithm>
#include <atomic>

#include "settings.hpp"

namespace emulated_gpu {
namespace {

std::vector<Capture*> captures;
std::uint64_t last_capture = 0;

std::uint64_t thisThread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

Capture* captureOf(std::uint64_t id) {
  for (Capture* const each : captures) {
    if (each->id == id) return each;
  }
  return nullptr;
}

// What the origin's last node comes after, itself among it.
std::set<int> before(const std::vector<Node>& nodes, const std::vector<int>& last) {
  std::set<int> result(last.begin(), last.end());
  std::vector<int> open = last;
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int earlier : nodes[static_cast<std::size_t>(node)].after) {
      if (result.insert(earlier).second) open.push_back(earlier);
    }
  }
  return result;
}

bool allJoined(const Capture& capture) {
  const std::set<int> reached = before(*capture.graph->nodes, capture.origin->capture_nodes);
  for (const CUstream stream : capture.streams) {
    for (const int node : stream->capture_nodes) {
      if (!reached.contains(node)) return false;
    }
  }
  return true;
}

}  // namespace

GraphRun::GraphRun(std::shared_ptr<const std::vector<Node>> all)
    : nodes(std::move(all)), left(nodes->size()) {
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    waits_for.push_back(static_cast<int>((*nodes)[i].after.size()));
    if (waits_for.back() == 0) ready.push_back(static_cast<int>(i));
  }
}

// Eager: as captured. Lazy: the last that may run. Random: any.
bool GraphRun::runOne() {
  std::size_t at = 0;
  if (settings().schedule == Schedule::kLazy) at = ready.size() - 1;
  if (settings().schedule == Schedule::kRandom) at = randomNumber() % ready.size();
  const auto waits = [&](std::size_t which) {
    const Work& work = (*nodes)[static_cast<std::size_t>(ready[which])].work;
    return work.ready && !work.ready();
  };
  for (std::size_t tried = 0; waits(at); at = (at + 1) % ready.size()) {
    if (++tried == ready.size()) return false;
  }
  const int now = ready[at];
  const Node& node = (*nodes)[static_cast<std::size_t>(now)];
  ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
  if (node.work.run) node.work.run();
  cost += node.work.cost;
  --left;
  for (std::size_t i = static_cast<std::size_t>(now) + 1; i < nodes->size(); ++i) {
    const auto& after = (*nodes)[i].after;
    const auto met = std::count(after.begin(), after.end(), now);
    if (met == 0) continue;
    waits_for[i] -= static_cast<int>(met);
    if (waits_for[i] == 0) {
      const int next = static_cast<int>(i);
      ready.insert(std::upper_bound(ready.begin(), ready.end(), next), next);
    }
  }
  return true;
}

cudaStreamCaptureMode& captureMode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

CUresult beginCapture(CUstream stream, cudaStreamCaptureMode mode) {
  const CUstream on = resolved(stream);
  if (on->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (on->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto* const capture = new Capture;
  capture->graph = new CUgraph_st;
  capture->id = ++last_capture;
  capture->mode = mode;
  capture->origin = on;
  capture->thread = thisThread();
  capture->streams.insert(on);
  on->capture = capture;
  on->capture_nodes.clear();
  captures.push_back(capture);
  return CUDA_SUCCESS;
}

CUresult endCapture(CUstream stream, CUgraph* graph) {
  const CUstream on = resolved(stream);
  *graph = nullptr;
  Capture* const capture = on->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != on) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != thisThread()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool joined = allJoined(*capture);
  for (const CUstream each : capture->streams) {
    each->capture = nullptr;
    each->capture_nodes.clear();
  }
  captures.erase(std::find(captures.begin(), captures.end(), capture));
  const bool valid = !capture->invalid;
  if (valid && joined) {
    *graph = capture->graph;
  } else {
    delete capture->graph;
  }
  delete capture;
  if (!valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

CUstreamCaptureStatus captureStatus(CUstream stream) {
  if (stream->capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult unsafeCall(const char* what) {
  if (captures.empty() || captureMode() == cudaStreamCaptureModeRelaxed) return CUDA_SUCCESS;
  for (Capture* const capture : captures) {
    const bool own =
        capture->thread == thisThread() && capture->mode != cudaStreamCaptureModeRelaxed;
    const bool any = captureMode() == cudaStreamCaptureModeGlobal &&
                     capture->mode == cudaStreamCaptureModeGlobal;
    if (!own && !any) continue;
    log("%s while a stream is captured", what);
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult forbiddenInCapture(Device& device) {
  for (Capture* const capture : captures) {
    if (capture->origin->device != &device) continue;
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult legacyInCapture(CUstream stream) {
  if (!stream->legacy) return CUDA_SUCCESS;
  for (Capture* const capture : captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed || !capture->origin->blocking) continue;
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return CUDA_SUCCESS;
}

CUresult captureWork(CUstream stream, Work work) {
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto& nodes = *stream->capture->graph->nodes;
  nodes.push_back({std::move(work), stream->capture_nodes});
  stream->capture_nodes = {static_cast<int>(nodes.size()) - 1};
  return CUDA_SUCCESS;
}

void captureRecord(CUstream stream, EventState& event) {
  event.capture = stream->capture->id;
  event.nodes = stream->capture_nodes;
}

CUresult captureWait(CUstream stream, EventState& event) {
  if (event.capture == 0) {  // recorded before the capture began, done or not
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  Capture* const capture = captureOf(event.capture);
  if (capture == nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (stream->capture != nullptr && stream->capture != capture) {
    capture->invalid = stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream->legacy) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (stream->capture == nullptr) {
    stream->capture = capture;
    stream->capture_nodes.clear();
    capture->streams.insert(stream);
  }
  for (const int node : event.nodes) {
    auto& nodes = stream->capture_nodes;
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  return CUDA_SUCCESS;
}

CUresult capturedEvent(const EventState& event) {
  if (event.capture == 0) return CUDA_SUCCESS;
  if (Capture* const capture = captureOf(event.capture)) capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

}  // namespace emulated_gpu
