// What is to hold in a child of this process: what a fork makes of a process is the process's.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "runtime/run/run_life.hpp"

namespace ebbtide::plugin::test {

inline bool holdsInChild(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Of a process that trains.
inline bool holdsInInertChild(const std::function<bool()>& holds) {
  return holdsInChild([&holds] {
    RunLife life;
    life.wakes = true;
    life.noteForked();
    return holds();
  });
}

}  // namespace ebbtide::plugin::test
