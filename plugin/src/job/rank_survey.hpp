// RankSurvey: how many ranks of a process group share this machine, and which of them this one is:
// they tell each other through the group's store. Torch-free.
//
//   each rank: its machine, its job's name ──► rank 0 numbers the machines ──► all read that
//
// Waits for nobody: who has not told yet is looked for again at the next poll.
//
// Thread rule: one thread, the planning thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/job_store.hpp"

namespace ebbtide::plugin {

class RankSurvey {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Here {
    std::string host;    // the same for all processes of a machine
    std::string job_id;  // as this process would name the job
  };
  struct Found {
    int local_rank = 0, local_world_size = 1;
    std::string job_id;  // as rank 0 does
    bool operator==(const Found&) const = default;
  };

  RankSurvey(std::unique_ptr<JobStore> store, int rank, int size, Here here);

  // Nothing: not all have told. Throws what the store does, and std::invalid_argument for an answer
  // that is none. `least_pause`: to the next one.
  std::optional<Found> poll(Time now, std::chrono::milliseconds least_pause = {});
  Time nextPoll() const { return next_; }

 private:
  void tell();
  std::optional<std::string> collect();  // by rank 0: what it then tells the others
  Found read(const std::string& answer) const;

  const std::unique_ptr<JobStore> store_;
  const int rank_, size_;
  const Here here_;
  bool told_ = false;
  std::vector<std::string> hosts_;  // of rank 0: of each rank; "": it has not told yet
  Time next_ = Time::min();
  std::chrono::milliseconds pause_;
};

// The machine's name and the kernel's number for this start of it: containers that have one name
// by default are still told apart.
std::string machineIdentity();

}  // namespace ebbtide::plugin
