#include "events.hpp"

#include "captures.hpp"
#include "host_time.hpp"
#include "settings.hpp"

namespace emulated_gpu {
namespace {

constexpr int kPolls = 8;  // queries with nothing asked for between: the thread waits

bool ran(const EventState& event) {
  return event.stream == nullptr || event.stream->done >= event.number;
}

bool done(const EventState& event) {
  return ran(event) && (!settings().timed() || event.at <= HostTime::get().now());
}

// By the host's clock. Nobody's time passes between two queries but what they cost, so who asks
// again and again is taken to wait.
CUresult queryTimed(EventState& event) {
  HostTime::get().spend(timeTable().event_query);
  if (!ran(event)) runUntil(event.stream, event.number, false);
  if (ran(event) && !done(event)) {
    event.asked = event.asked_at == timesAsked() ? event.asked + 1 : 1;
    event.asked_at = timesAsked();
    if (event.asked >= kPolls) HostTime::get().waitUntil(event.at);
  }
  if (!done(event)) return CUDA_ERROR_NOT_READY;
  orderHost(event.seen);
  return CUDA_SUCCESS;
}

CUresult notCaptured(CUstream stream) {
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace

CUresult waitEvent(CUstream stream, CUevent event) {
  const CUstream on = resolved(stream);
  EventState& state = *event->state;
  if (state.capture != 0 || on->capture != nullptr) return captureWait(on, state);
  if (state.stream == nullptr || state.stream == on) return CUDA_SUCCESS;
  if (settings().without_waits) return CUDA_SUCCESS;
  orderWait(on, state.seen);
  awaitTask(on, state.stream, state.number);
  return CUDA_SUCCESS;
}

CUresult queryEvent(CUevent event) {
  EventState& state = *event->state;
  if (const CUresult error = capturedEvent(state)) return error;
  if (const CUresult error = unsafeCall("an event's query")) return error;
  if (settings().timed()) return queryTimed(state);
  if (!done(state)) {
    if (++state.asked <= settings().unready) return CUDA_ERROR_NOT_READY;
    runUntil(state.stream, state.number, false);  // so that who polls gets on
  }
  if (!done(state)) return CUDA_ERROR_NOT_READY;
  orderHost(state.seen);
  return CUDA_SUCCESS;
}

CUresult synchronizeEvent(CUevent event) {
  EventState& state = *event->state;
  if (const CUresult error = capturedEvent(state)) return error;
  if (const CUresult error = unsafeCall("an event's synchronize")) return error;
  if (state.stream != nullptr) runUntil(state.stream, state.number, true);
  if (settings().timed()) HostTime::get().waitUntil(state.at);
  orderHost(state.seen);
  return CUDA_SUCCESS;
}

CUresult elapsed(float* milliseconds, CUevent begin, CUevent end) {
  const EventState& first = *begin->state;
  const EventState& last = *end->state;
  const bool recorded = first.stream != nullptr && last.stream != nullptr;
  if (!recorded || !first.timed || !last.timed) return CUDA_ERROR_INVALID_HANDLE;
  if (!done(first) || !done(last)) return CUDA_ERROR_NOT_READY;
  orderHost(first.seen);
  orderHost(last.seen);
  *milliseconds = static_cast<float>((last.at - first.at) / 1e6);
  return CUDA_SUCCESS;
}

CUresult queryStream(CUstream stream) {
  const CUstream on = resolved(stream);
  if (const CUresult error = notCaptured(on)) return error;
  if (const CUresult error = unsafeCall("a stream's query")) return error;
  HostTime::get().spend(timeTable().stream_query);
  return lookAt(on) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult synchronizeStream(CUstream stream) {
  const CUstream on = resolved(stream);
  if (const CUresult error = notCaptured(on)) return error;
  if (const CUresult error = unsafeCall("a stream's synchronize")) return error;
  drainAsAsked(on);
  return CUDA_SUCCESS;
}

CUresult synchronizeDevice(Device& device) {
  if (const CUresult error = forbiddenInCapture(device)) return error;
  drainAll(device);
  return CUDA_SUCCESS;
}

}  // namespace emulated_gpu
