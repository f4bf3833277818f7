#include "observe/memory_history.hpp"

#include <unordered_set>

#include "base/system_time.hpp"

namespace ebbtide::plugin {

const char* keptName(const std::string& name) {
  static auto* const mutex = new std::mutex;  // leaked: threads outlive exit
  static auto* const names = new std::unordered_set<std::string>;
  const std::lock_guard lock(*mutex);
  return names->insert(name).first->c_str();
}

void MemoryHistory::add(const void* block, allocator::Bytes bytes, bool allocated) noexcept {
  MemoryEvent event{
      .at_ns = steadyNanoseconds(), .block = block, .bytes = bytes, .allocated = allocated};
  try {
    if (ask_ != nullptr) event.by = ask_();
  } catch (...) {
    // The event without its name, then.
  }
  const std::lock_guard lock(mutex_);
  events_.add(event);
}

}  // namespace ebbtide::plugin
