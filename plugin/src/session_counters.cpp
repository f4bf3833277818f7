// What the executor tells a Session of.
#include "session.hpp"

namespace ebbtide::plugin {
namespace {

double seconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

}  // namespace

void Session::countReplay(std::int64_t duration_ns) noexcept {
  ++recomputed_ops_;
  recompute_ns_ += duration_ns;
  metrics_.addRecomputed(1, seconds(duration_ns));
}

void Session::countReplaysAhead(std::int64_t replays, std::int64_t duration_ns) noexcept {
  replays_ahead_ += replays;
  ahead_ns_ += duration_ns;
}

void Session::countSpill(std::int64_t bytes) noexcept {
  spilled_bytes_ += bytes;
  metrics_.addSpilledBytes(bytes);
}

bool Session::hasRejected(const std::string& op) const {
  if (!any_rejected_) return false;
  std::lock_guard lock(mutex_);
  return rejected_ops_.contains(op) || rejected_from_cache_.contains(op);
}

void Session::countCode(std::int64_t decoded_values, std::int64_t duration_ns) noexcept {
  decoded_values_ += decoded_values;
  codec_ns_ += duration_ns;
}

void Session::countOffload(std::int64_t written_bytes, std::int64_t duration_ns) noexcept {
  offloaded_bytes_ += written_bytes;
  offload_ns_ += duration_ns;
  metrics_.addOffloadedBytes(written_bytes);
}

void Session::noteOffloadFailed() {
  if (offload_fails_.exchange(true)) return;
  warn("plans write no more values to the host: " + spills_->lastError());
  std::lock_guard lock(mutex_);
  for (auto& [signature, known] : programs_) {
    const auto fetches = [](const auto& plan) { return plan && plan->host_fetches > 0; };
    if (!fetches(known.plan) && !fetches(known.later_plan)) continue;
    known.later_plan = nullptr;
    known.replan = true;
    steps_to_record_ = std::max(steps_to_record_, 2);
  }
}

void Session::keepEverything(const std::string& why) {
  if (keeps_everything_.exchange(true)) return;
  warn("nothing is dropped or spilled from now on, as in PyTorch alone: " + why);
}

void Session::disable(const std::string& why) {
  if (disabled_.exchange(true)) return;
  warn("switched to pass-through, training goes on as PyTorch runs it: " + why);
}

std::string Session::stopMessage() const {
  std::lock_guard lock(mutex_);
  return stop_message_;
}

}  // namespace ebbtide::plugin
