#include "cuda/history.hpp"

#include <algorithm>

#include "ebbtide/allocator/cuda/stream_names.hpp"

namespace ebbtide::plugin::cuda {
namespace {

thread_local std::vector<std::string> compile_contexts;

}  // namespace

void HistorySettings::set(bool enabled, c10::CachingDeviceAllocator::CreateContextFn create,
                          RecordContext when, const std::vector<std::string>& skip_actions) {
  TORCH_CHECK(when == RecordContext::NEVER || create != nullptr,
              "recordHistory: contexts are asked for, but nothing that makes them");
  unsigned skipped = 0;
  for (const std::string& action : skip_actions) {
    skipped |= 1U << c10::CachingDeviceAllocator::parseTraceEntryAction(action);
  }
  create_ = enabled ? create : nullptr;
  when_ = enabled ? when : RecordContext::NEVER;
  skipped_ = skipped;
  enabled_ = enabled;
}

std::shared_ptr<c10::GatheredContext> HistorySettings::gather(RecordContext level) const {
  if (when_.load(std::memory_order_relaxed) < level) return nullptr;
  const auto create = create_.load(std::memory_order_acquire);
  return create == nullptr ? nullptr : create();
}

void HistorySettings::setUserMetadata(const std::string& text) {
  const std::lock_guard lock(mutex_);
  user_metadata_ = text;
}

std::string HistorySettings::userMetadata() const {
  const std::lock_guard lock(mutex_);
  return user_metadata_;
}

void HistorySettings::pushCompileContext(const std::string& text) {
  compile_contexts.push_back(text);
}

void HistorySettings::popCompileContext() {
  if (!compile_contexts.empty()) compile_contexts.pop_back();
}

std::string HistorySettings::compileContext() {
  return compile_contexts.empty() ? "N/A" : compile_contexts.back();
}

void History::clear() noexcept {
  entries_.clear();
  next_ = 0;
}

void History::add(TraceEntry::Action action, std::size_t address, Bytes bytes, const Owner& owner,
                  const std::shared_ptr<c10::GatheredContext>& context) noexcept {
  const bool kept = settings_.records(action);
  if (!kept && trackers_.empty()) return;
  try {
    TraceEntry entry(action, device_, address, static_cast<std::size_t>(bytes),
                     allocator::cuda::handleOf(owner.name), owner.pool, c10::getApproximateTime(),
                     settings_.keepsContextOfEntries() ? context : nullptr,
                     HistorySettings::compileContext(), settings_.userMetadata());
    for (const auto& tracker : trackers_) tracker(entry);
    if (!kept) return;
    if (entries_.size() < most_) {
      entries_.push_back(std::move(entry));
      return;
    }
    next_ %= entries_.size();
    entries_[next_++] = std::move(entry);
  } catch (const std::exception&) {
    // A tracker's error, or no memory: neither may reach who allocates or frees.
  }
}

std::vector<TraceEntry> History::entries(
    const std::function<c10::time_t(c10::approx_time_t)>& microseconds) const {
  std::vector<TraceEntry> ordered;
  ordered.reserve(entries_.size());
  const auto oldest = entries_.begin() +
                      static_cast<std::ptrdiff_t>(entries_.empty() ? 0 : next_ % entries_.size());
  ordered.insert(ordered.end(), oldest, entries_.end());
  ordered.insert(ordered.end(), entries_.begin(), oldest);
  for (TraceEntry& entry : ordered) entry.time_.t_ = microseconds(entry.time_.approx_t_);
  return ordered;
}

}  // namespace ebbtide::plugin::cuda
