#include "runtime/planning_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <utility>

namespace ebbtide::plugin {
namespace {

thread_local bool on_planning_thread = false;

void beOfIdleClass() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_IDLE, &none);  // of this thread; refused: as normal
}

}  // namespace

std::thread startPlanningThread(const char* name, Priority priority, std::function<void()> run) {
  return std::thread([name, priority, run = std::move(run)] {
    pthread_setname_np(pthread_self(), name);
    if (priority == Priority::kIdle) beOfIdleClass();
    on_planning_thread = true;
    run();
  });
}

bool onPlanningThread() noexcept {
  return on_planning_thread;
}

}  // namespace ebbtide::plugin
