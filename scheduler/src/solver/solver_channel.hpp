// SolverChannel: whole messages over one socket between a planner and the solver's process.
//
//   planner: kSolver, kLibrary, kParameters, kModel, then closes its half to ask for an end
//   solver:  kIncumbent …, then kResponse or kError
//
// Neither side dies of the other's death: a broken socket is a result.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ebbtide::scheduler {

struct SolverMessage {
  enum class Kind : std::uint32_t {
    kSolver,      // "cp-sat" or "highs"
    kLibrary,     // path of its shared library
    kParameters,  // as that solver takes them
    kModel,       // as that solver takes it; the request is complete
    kIncumbent,   // as that solver gives it: each better solution when it is found
    kResponse,    // as that solver gives it, the last message
    kError,       // one sentence, the last message
  };
  Kind kind = Kind::kError;
  std::string bytes;
};

class SolverChannel {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SolverChannel(int socket) : socket_(socket) {}  // owns the socket
  ~SolverChannel();
  SolverChannel(const SolverChannel&) = delete;
  SolverChannel& operator=(const SolverChannel&) = delete;

  // False: the peer is gone, or the deadline came first.
  bool send(const SolverMessage& message, Clock::time_point deadline = Clock::time_point::max());
  // Nothing: the peer has closed its half, sent no message of ours, or the deadline came first;
  // what has come of a message by then is kept for the next call.
  std::optional<SolverMessage> receive(Clock::time_point deadline = Clock::time_point::max());
  // The peer reads no more from here; what it sends still arrives.
  void closeHalf();

 private:
  bool sendAll(const char* bytes, std::size_t size, Clock::time_point deadline);
  bool receiveUpTo(std::size_t size, Clock::time_point deadline);
  bool wait(short events, Clock::time_point deadline) const;

  int socket_;
  std::string inbox_;  // received, not yet returned
};

}  // namespace ebbtide::scheduler
