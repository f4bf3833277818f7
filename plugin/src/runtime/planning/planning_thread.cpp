#include "runtime/planning/planning_thread.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace ebbtide::plugin {
namespace {

thread_local bool on_planning_thread = false;

constexpr int kLowestNice = 19;

// Of this thread alone: to Linux each thread has a nice value. Never refused, for it asks for less.
void beOfLowestPriority() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowestNice);
}

}  // namespace

std::thread startPlanningThread(const char* name, Priority priority, std::function<void()> run) {
  std::thread thread([name, priority, run = std::move(run)] {
    pthread_setname_np(pthread_self(), name);
    if (priority == Priority::kLowest) beOfLowestPriority();
    on_planning_thread = true;
    run();
  });
  // The thread may not have run yet. A list of the threads shows its name from here on.
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

bool onPlanningThread() noexcept {
  return on_planning_thread;
}

}  // namespace ebbtide::plugin
