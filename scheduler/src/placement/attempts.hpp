// Numbered attempts on threads. The success with the lowest number counts, as if they were made one
// after the other, so that the result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ebbtide::scheduler {

// `attempt(i, cancelled)` for i from 0 to count - 1, at most `threads` at once, returns whether it
// succeeded. It may give up, with false, once `cancelled` is true: an earlier one has succeeded.
// Returns the first success, or `count`. Rethrows what an attempt throws.
template <typename Attempt>
std::size_t firstSuccess(std::size_t count, unsigned threads, Attempt attempt) {
  const auto cancelled = std::make_unique<std::atomic<bool>[]>(count);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::size_t first = count;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      bool success = true;  // what throws ends the later ones too
      std::exception_ptr thrown;
      try {
        success = !cancelled[i] && attempt(i, cancelled[i]);
      } catch (...) {
        thrown = std::current_exception();
      }
      if (!success) continue;
      const std::lock_guard lock(mutex);
      if (thrown && !failure) failure = thrown;
      first = std::min(first, i);
      for (std::size_t later = i + 1; later < count; ++later) cancelled[later] = true;
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min<std::size_t>(threads, count); ++i) others.emplace_back(work);
  work();
  others.clear();
  if (failure) std::rethrow_exception(failure);
  return first;
}

}  // namespace ebbtide::scheduler
