// From a placement to lower ones: attempts at heights between it and what is proven to be the
// least, each with an order that the failures before have taught.
#pragma once

#include <atomic>
#include <optional>

#include "placement/learned_order.hpp"
#include "placement/ordered_packer.hpp"
#include "placement/time_neighbours.hpp"

namespace ebbtide::scheduler {

class HeightSearch {
 public:
  // `start`: a whole packing. `sections` and `options` outlive this.
  HeightSearch(const LiveSections& sections, const PlacementOptions& options, Packing start,
               std::string method);

  // Until the height is at most `goal_bytes` or proven, nobody waits, the deadline, or the work
  // without one.
  void run(Bytes goal_bytes);

  const Packing& best() const { return best_; }
  const std::string& method() const { return method_; }
  // Proven: no placement is lower.
  Bytes least() const { return least_; }

 private:
  struct Attempt {
    bool impossible = false;
    Packing packing;  // without offsets: failed
    std::vector<std::int64_t> blame;
  };

  bool isDone(Bytes goal_bytes) const;
  void prepare();
  Bytes nextHeight(std::int64_t round, Bytes goal_bytes) const;
  void attemptAll(Bytes height_bytes, std::int64_t nodes);
  Attempt search(const LearnedOrder& order, Bytes height_bytes, std::int64_t nodes,
                 const std::atomic<bool>& cancelled) const;
  Attempt pack(const LearnedOrder& order, Bytes height_bytes) const;

  const LiveSections& sections_;
  const PlacementOptions& options_;
  std::optional<TimeNeighbours> neighbours_;  // none: too many pairs for the exact search
  std::vector<LearnedOrder> orders_;
  Bytes unit_bytes_;  // all heights of settled placements are multiples of it
  Packing best_;
  std::string method_;
  Bytes least_;
};

}  // namespace ebbtide::scheduler
