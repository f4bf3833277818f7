// ReplayFindings: which replays were compared with their originals in this process, and which ops
// are never to be run again.
//
// A call that differs is rejected alone: the program may have written what it read unseen. Where
// two runs from the same inputs differ, or two calls of an op that is not known to repeat
// (deterministic_ops.hpp), its name is distrusted. Torch-free. Thread rule: any…() from any thread;
// whoever has it guards the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "plan/plan.hpp"

namespace ebbtide::plugin {

class ReplayFindings {
 public:
  using Counts = std::map<std::string, std::int64_t>;  // by the op's name

  void addEqual(const std::string& op) { ++equal_[op]; }
  // It gave other results; what merely failed may have been short of memory.
  void addDiffering(const std::string& op, std::uint64_t signature);
  // The op's kernel does not repeat: no call of it is run again. True: it was not known yet.
  bool distrust(const std::string& op);
  // It leaves bytes of its results unwritten.
  void addUnwritten(const std::string& op);
  // True: it was not known yet.
  bool reject(const std::string& op, std::uint64_t signature);

  bool anyRejected() const noexcept { return any_rejected_; }
  bool anyDistrusted() const noexcept { return any_distrusted_; }
  bool anyUnwritten() const noexcept { return any_unwritten_; }
  bool distrusts(const std::string& op) const { return distrusted_.contains(op); }
  bool leavesUnwritten(const std::string& op) const { return unwritten_.contains(op); }
  // Is something to be said of it, the first time for this op's name?
  bool takeSaying(const std::string& op) { return said_.insert(op).second; }
  bool isSaid(const std::string& op) const { return said_.contains(op); }
  // Has a replay of such an op differed, in whatever step?
  bool rejectsName(const std::string& op) const;
  bool rejects(std::uint64_t signature) const { return rejected_.contains(signature); }
  bool rejects(const Plan& plan) const;  // something that it replays

  const Counts& equal() const { return equal_; }
  const Counts& rejected() const { return rejected_names_; }

 private:
  std::atomic<bool> any_rejected_{false}, any_distrusted_{false}, any_unwritten_{false};
  std::set<std::uint64_t> rejected_;  // signatures of ops
  std::set<std::uint64_t> differed_;  // rejected because their bytes differed
  std::set<std::string> differed_names_, distrusted_, unwritten_, said_;
  Counts equal_, rejected_names_;
};

}  // namespace ebbtide::plugin
