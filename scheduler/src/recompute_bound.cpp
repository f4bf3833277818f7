// Time that no schedule without offload can avoid to replay within a budget, by fractional
// knapsacks: while an op runs, live values that are read later must make room for what exceeds the
// budget, and each one dropped takes a replay of its producer after the op.
//
// At the ops with most live bytes a producer's outputs are counted by what is live of them; at all
// others by the largest that they ever take, which gives less but needs one pass over the graph.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"
#include "schedule_reads.hpp"

namespace ebbtide::scheduler {
namespace {

// Ops that get a knapsack of their own, and values looked at for all of them together.
constexpr std::size_t kMostOps = 64, kLeastOps = 4, kMostLooks = 4'000'000;

// What one op's replay can have made room for while some later op runs.
struct Room {
  Nanoseconds duration = 0;
  Bytes bytes = 0;
};

// The least time of replays that made room for `excess` bytes, each taken in parts if need be.
Nanoseconds leastTime(std::vector<Room>& rooms, Bytes excess) {
  std::sort(rooms.begin(), rooms.end(), [](const Room& a, const Room& b) {
    return static_cast<double>(a.duration) * static_cast<double>(b.bytes) <
           static_cast<double>(b.duration) * static_cast<double>(a.bytes);
  });
  double time = 0;
  for (const Room& room : rooms) {
    if (excess <= 0) break;
    const double part = static_cast<double>(std::min(excess, room.bytes));
    time += static_cast<double>(room.duration) * part / static_cast<double>(room.bytes);
    excess -= room.bytes;
  }
  return static_cast<Nanoseconds>(time);  // where all is not enough, no schedule fits at all
}

// Rooms by rising time per byte, each of the bytes that are live of it; a Fenwick tree.
class RoomTree {
 public:
  explicit RoomTree(std::vector<Room> largest) : largest_(std::move(largest)) {
    order_.resize(largest_.size());
    std::vector<std::size_t> by_ratio(largest_.size());
    std::iota(by_ratio.begin(), by_ratio.end(), std::size_t{0});
    std::stable_sort(by_ratio.begin(), by_ratio.end(),
                     [this](std::size_t a, std::size_t b) { return nsPerByte(a) < nsPerByte(b); });
    for (std::size_t i = 0; i < by_ratio.size(); ++i) order_[by_ratio[i]] = i + 1;
    live_.assign(largest_.size(), 0);
    sums_.assign(largest_.size() + 1, {});
    while (2 * top_ <= largest_.size()) top_ *= 2;
  }

  void add(std::size_t room, Bytes bytes) {
    const Nanoseconds before = timeOf(room);
    live_[room] += bytes;
    const Nanoseconds more = timeOf(room) - before;
    for (std::size_t i = order_[room]; i < sums_.size(); i += i & (~i + 1)) {
      sums_[i].bytes += bytes;
      sums_[i].duration += more;
    }
  }

  // All of the cheapest rooms that are not more than `excess`; of the next one nothing.
  Nanoseconds leastTime(Bytes excess) const {
    Nanoseconds time = 0;
    std::size_t at = 0;
    for (std::size_t step = top_; step > 0; step /= 2) {
      if (at + step >= sums_.size() || sums_[at + step].bytes > excess) continue;
      at += step;
      excess -= sums_[at].bytes;
      time += sums_[at].duration;
    }
    return time;
  }

 private:
  double nsPerByte(std::size_t room) const {
    return static_cast<double>(largest_[room].duration) /
           static_cast<double>(std::max<Bytes>(largest_[room].bytes, 1));
  }
  Nanoseconds timeOf(std::size_t room) const {
    return static_cast<Nanoseconds>(nsPerByte(room) * static_cast<double>(live_[room]));
  }

  std::vector<Room> largest_;       // per op
  std::vector<std::size_t> order_;  // per op: its place by time per byte, from 1
  std::vector<Bytes> live_;         // per op
  std::vector<Room> sums_;
  std::size_t top_ = 1;
};

class RecomputeBound {
 public:
  RecomputeBound(const Graph& graph, Bytes budget)
      : graph_(graph), budget_(budget), last_read_(lastScheduleReads(graph)) {
    findLiveBytes();
  }

  Nanoseconds atAllOps() const {
    const std::size_t ops = graph_.ops.size();
    std::vector<Room> largest(ops);
    std::vector<std::vector<ValueId>> begin(ops + 1), end(ops + 1);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!makesRoom(value) || firstRoom(value) >= last_read_[v]) continue;
      largest[value.producer].bytes += value.bytes;
      begin[firstRoom(value)].push_back(static_cast<ValueId>(v));
      end[last_read_[v]].push_back(static_cast<ValueId>(v));
    }
    for (std::size_t op = 0; op < ops; ++op) largest[op].duration = graph_.ops[op].duration_ns;
    RoomTree rooms(std::move(largest));
    std::vector<bool> open(graph_.values.size(), false);
    const auto add = [&](ValueId value, Bytes sign) {
      rooms.add(graph_.values[value].producer, sign * graph_.values[value].bytes);
    };
    Nanoseconds bound = 0;
    for (std::size_t op = 0; op < ops; ++op) {
      for (ValueId value : begin[op]) add(value, 1), open[value] = true;
      for (ValueId value : end[op]) add(value, -1), open[value] = false;
      const Bytes excess = live_[op] - budget_;
      if (excess <= 0) continue;
      for (ValueId input : graph_.ops[op].inputs) {
        if (open[input]) add(input, -1);
      }
      bound = std::max(bound, rooms.leastTime(excess));
      for (ValueId input : graph_.ops[op].inputs) {
        if (open[input]) add(input, 1);
      }
    }
    return bound;
  }

  // Which ops does not depend on the budget, so that the bound rises as that falls.
  Nanoseconds atFullestOps() const {
    std::vector<OpId> ops(graph_.ops.size());
    std::iota(ops.begin(), ops.end(), 0);
    const std::size_t looks = kMostLooks / std::max<std::size_t>(graph_.values.size(), 1);
    const std::size_t count = std::min(std::clamp(looks, kLeastOps, kMostOps), ops.size());
    std::partial_sort(
        ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(count), ops.end(),
        [this](OpId a, OpId b) { return std::pair(-live_[a], a) < std::pair(-live_[b], b); });
    Nanoseconds bound = 0;
    for (std::size_t i = 0; i < count; ++i) bound = std::max(bound, at(ops[i]));
    return bound;
  }

 private:
  // What is written over is left out: its bytes are another value's later on.
  static bool counts(const Value& value) { return !value.pinned && value.overwritten_by == kNone; }
  bool makesRoom(const Value& value) const {
    return counts(value) && value.producer != kNone && graph_.ops[value.producer].rerunnable;
  }
  static OpId firstRoom(const Value& value) {
    return std::max(value.producer, value.natural_last) + 1;
  }

  // Per op: fixed bytes, and values live then that the program holds or something reads later.
  void findLiveBytes() {
    const OpId ops = static_cast<OpId>(graph_.ops.size());
    std::vector<Bytes> change(graph_.ops.size() + 1, 0);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!counts(value)) continue;
      const OpId made = graph_.lazy_outputs ? value.producer + 1 : value.producer;
      const OpId begin = std::max(made, 0);
      OpId end = std::max(value.natural_last, last_read_[v]);
      if (!graph_.lazy_outputs) end = std::max(end, value.producer);
      end = std::min(end, ops - 1);
      if (end < begin) continue;
      change[begin] += value.bytes;
      change[end + 1] -= value.bytes;
    }
    std::partial_sum(change.begin(), change.end() - 1, std::back_inserter(live_));
    for (std::size_t op = 0; op < live_.size(); ++op) live_[op] += graph_.ops[op].fixed_bytes;
  }

  Nanoseconds at(OpId op) const {
    const Bytes excess = live_[op] - budget_;
    if (excess <= 0) return 0;
    std::vector<Room> rooms(graph_.ops.size());
    const auto& inputs = graph_.ops[op].inputs;
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!makesRoom(value) || firstRoom(value) > op || last_read_[v] <= op) continue;
      if (std::find(inputs.begin(), inputs.end(), static_cast<ValueId>(v)) != inputs.end())
        continue;
      rooms[value.producer].bytes += value.bytes;
      rooms[value.producer].duration = graph_.ops[value.producer].duration_ns;
    }
    std::erase_if(rooms, [](const Room& room) { return room.bytes == 0; });
    return leastTime(rooms, excess);
  }

  const Graph& graph_;
  const Bytes budget_;
  const std::vector<OpId> last_read_;
  std::vector<Bytes> live_;
};

}  // namespace

Nanoseconds recomputeLowerBound(const Graph& graph, Bytes budget_bytes) {
  if (graph.any_order || graph.ops.empty()) return 0;
  const RecomputeBound bound(graph, budget_bytes);
  return std::max(bound.atAllOps(), bound.atFullestOps());
}

}  // namespace ebbtide::scheduler
