#include "runtime/polishing.hpp"

#include <utility>

#include "runtime/planning_thread.hpp"

namespace ebbtide::plugin {

void Polishing::begin(Search search) {
  over_ = taken_ = false;
  thread_ =
      startPlanningThread("ebbtide-polish", Priority::kLowest, [this, search = std::move(search)] {
        try {
          found_ = search();
        } catch (...) {
          error_ = std::current_exception();
        }
        over_.store(true, std::memory_order_release);
        taken_.wait(false);
      });
}

Planned Polishing::take() {
  join();
  const std::exception_ptr error = std::exchange(error_, nullptr);
  Planned found = std::exchange(found_, {});
  if (error) std::rethrow_exception(error);
  return found;
}

void Polishing::join() {
  if (!thread_.joinable()) return;
  taken_ = true;
  taken_.notify_one();
  thread_.join();
}

}  // namespace ebbtide::plugin
