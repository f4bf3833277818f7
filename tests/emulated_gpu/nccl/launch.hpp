// The operations of a call, or of a group's calls for one communicator and stream: a task of the
// stream, which is done when the other ranks have taken part.
#pragma once

#include <memory>
#include <vector>

#include "communicator.hpp"

namespace emulated_nccl {

class Launch {
 public:
  Launch(ncclComm& comm, cudaStream_t stream, std::vector<Operation> operations);
  ~Launch();
  Launch(const Launch&) = delete;

  // Onto the stream, which owns it from then on.
  static ncclResult_t enqueue(std::unique_ptr<Launch> launch);

  cudaStream_t stream() const { return stream_; }

 private:
  struct State {
    bool begun = false, done = false;
    std::uint64_t number = 0;  // of the communicator's collectives, or the channel's messages
    void* event = nullptr;     // the profiler's
    void* channel = nullptr;
  };

  // As a task, under the device's lock. A look gets on as far as the others let it.
  bool ready();
  void finish();
  bool look();
  void begin();
  bool collective(const Operation& operation, State& state);
  bool message(const Operation& operation, State& state);
  bool send(const Operation& operation, State& state);
  bool receive(const Operation& operation, State& state);
  bool publish(const Operation& operation, State& state);
  bool sameAsked(State& state);
  bool complete(const Operation& operation, const State& state);
  bool scatteredOrGathered(const Operation& operation, int place);
  bool reduced(const Operation& operation, int place);

  // Nobody gets on: has a rank ended, or was it too long?
  void wait();
  std::vector<int> missing() const;
  bool giveUp();
  void fault(const char* what);

  ncclComm& comm_;
  cudaStream_t stream_ = nullptr;
  std::vector<Operation> operations_;
  bool captured_ = false;
  double cost_ = 0;  // ns of virtual time
  // Of the run that goes on; a graph's replays are runs of their own.
  bool running_ = false;
  std::vector<State> states_;
  Clock::time_point since_{}, looked_for_lost_{};
};

}  // namespace emulated_nccl
