#include "runtime/planning_thread.hpp"

#include <pthread.h>

#include <utility>

namespace ebbtide::plugin {
namespace {

thread_local bool on_planning_thread = false;

}  // namespace

std::thread startPlanningThread(const char* name, std::function<void()> run) {
  return std::thread([name, run = std::move(run)] {
    pthread_setname_np(pthread_self(), name);
    on_planning_thread = true;
    run();
  });
}

bool onPlanningThread() noexcept {
  return on_planning_thread;
}

}  // namespace ebbtide::plugin
