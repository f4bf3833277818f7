// SolverWorker: one solve by a solver of the wheel in a process of its own.
//
// The libraries abort on malformed input and on faults of their own, handle signals, and clash with
// other copies of protobuf; none of that reaches this process. The child is `ebbtide-solver`,
// killed and reaped with this object; it ends by itself when this process dies.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "solver/solver_channel.hpp"
#include "solver/solver_wheel.hpp"

namespace ebbtide::scheduler {

enum class Solver { kCpSat, kHighs };

// As the solver takes them: for CP-SAT the bytes of a CpModelProto and of SatParameters.
struct SolverRequest {
  Solver solver = Solver::kCpSat;
  std::string model;
  std::string parameters;
  const std::atomic<bool>* cancelled = nullptr;  // true: the answer is not waited for any more
};

// As the solver gives it: for CP-SAT the bytes of a CpSolverResponse.
struct SolverAnswer {
  enum class End {
    kFinished,  // `bytes` is the solver's response
    kLate,      // the deadline came first; `bytes` is the last incumbent, empty if there was none
    kDied,      // killed or crashed; likewise
    kRefused,   // it could not solve at all; likewise
  };
  End end = End::kDied;
  std::string bytes;
  std::string message;  // of kDied and kRefused: one sentence

  // Throws std::invalid_argument if it is kRefused: like a missing wheel, planners do not pass over
  // that.
  void rejectRefusal() const;
};

class SolverWorker {
 public:
  using Clock = std::chrono::steady_clock;
  using OnIncumbent = std::function<void(const std::string& bytes)>;

  // Starts the process. Throws std::runtime_error where that is not possible.
  explicit SolverWorker(SolverWheel wheel);
  ~SolverWorker();
  SolverWorker(const SolverWorker&) = delete;
  SolverWorker& operator=(const SolverWorker&) = delete;

  pid_t pid() const { return pid_; }
  // Once. Calls `on_incumbent` on this thread. At the deadline the solver is asked to stop; it is
  // killed if it has not answered kGrace later, and at once where the request is cancelled.
  SolverAnswer solve(const SolverRequest& request, Clock::time_point deadline,
                     const OnIncumbent& on_incumbent = {});

  static constexpr std::chrono::milliseconds kGrace{200};
  static constexpr std::chrono::milliseconds kLook{20};  // whether the request is cancelled

 private:
  bool ask(const SolverRequest& request, Clock::time_point deadline);
  std::optional<SolverMessage> receive(const SolverRequest& request, Clock::time_point until);
  void awaitDeath();
  void end();  // kills and reaps
  std::string cause() const;

  SolverWheel wheel_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;  // as waitpid() gives it
  std::unique_ptr<SolverChannel> channel_;
};

}  // namespace ebbtide::scheduler
