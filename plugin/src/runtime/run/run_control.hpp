// RunControl: who answers for a Session to the outside, and does on its planning thread what was
// asked for there. The session knows no more of it than this. Torch-free.
//
// What takes a Held is called with the session's guard held, the others without.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/run/session_guard.hpp"

namespace ebbtide::plugin {

class RunControl {
 public:
  using Held = SessionGuard::Held;
  using Make = std::function<std::unique_ptr<RunControl>(Session&)>;  // which outlives it

  struct Served {
    std::string endpoint;  // where it is found, in words
    std::string problem;   // what is not served, and why; empty: all that was asked for is
  };

  virtual ~RunControl() = default;

  // --- the session begins and ends
  // At its first training op, and again where it turns out to be another rank. `on_any_port`: where
  // others use the one of the configuration, one of the next.
  virtual Served serve(bool on_any_port) = 0;
  // The planning thread has ended: who still waits is told so, and nobody is served any more.
  virtual void close() = 0;

  // --- training threads
  // The session has just taken this budget: the plan that was made for it is in force too.
  virtual void takePlan(const Held& held, const std::string& size) = 0;

  // --- the planning thread
  virtual bool hasWork(const Held& held) const = 0;
  virtual void work() noexcept = 0;  // one piece of it
};

}  // namespace ebbtide::plugin
