#include "runtime/planning/polishing.hpp"

#include <atomic>
#include <exception>
#include <utility>

#include "runtime/planning/planning_thread.hpp"

namespace ebbtide::plugin {

// The state that a search's thread shares. The thread may end after its result is taken.
struct Polishing::Run {
  std::atomic<bool> over{false}, taken{false};
  // Owned by the search until it is over.
  Planned found;
  std::exception_ptr error;

  void letGo() {
    taken = true;
    taken.notify_one();
  }
};

Polishing::~Polishing() {
  if (!isUnderWay()) return;
  run_->letGo();
  thread_.join();
}

void Polishing::begin(Search search) {
  auto run = std::make_shared<Run>();
  thread_ = startPlanningThread("ebbtide-polish", Priority::kLowest,
                                [run, search = std::move(search)]() mutable {
                                  try {
                                    run->found = search();
                                  } catch (...) {
                                    run->error = std::current_exception();
                                  }
                                  search = nullptr;
                                  run->over.store(true, std::memory_order_release);
                                  run->over.notify_one();
                                  run->taken.wait(false);
                                });
  run_ = std::move(run);
}

bool Polishing::isOver() const {
  return isUnderWay() && run_->over.load(std::memory_order_acquire);
}

bool Polishing::endsWithin(std::chrono::milliseconds most) const {
  const auto until = std::chrono::steady_clock::now() + most;
  while (isUnderWay() && !isOver()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Planned Polishing::take() {
  if (!isUnderWay()) return {};
  const std::shared_ptr<Run> run = std::exchange(run_, nullptr);
  run->over.wait(false, std::memory_order_acquire);
  run->letGo();
  thread_.detach();
  if (run->error) std::rethrow_exception(run->error);
  return std::move(run->found);
}

}  // namespace ebbtide::plugin
