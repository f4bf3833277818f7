// Time that no schedule without offload can avoid to replay within a budget, by fractional
// knapsacks: while an op runs, live values that are read later must make room for what exceeds the
// budget, and each one dropped takes a replay of its producer after the op.
//
// At the ops with most live bytes the bound counts the live bytes of a producer's outputs. At all
// other ops it counts the most that these outputs ever take: a weaker bound, but one pass over the
// graph is enough.
//
// Replays for reads within one microbatch come within it, so the bounds of several add up:
//
//   forward | backward | forward | backward
//      i ......... r   |    j ......... r      dropped at i, read at r: made again between them
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"
#include "judge/schedule_reads.hpp"

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
    all_ += bytes;
    const Nanoseconds more = timeOf(room) - before;
    for (std::size_t i = order_[room]; i < sums_.size(); i += i & (~i + 1)) {
      sums_[i].bytes += bytes;
      sums_[i].duration += more;
    }
  }

  Bytes liveBytes() const { return all_; }
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
  Bytes all_ = 0;
  std::size_t top_ = 1;
};

class RecomputeBound {
 public:
  RecomputeBound(const Graph& graph, Bytes budget)
      : graph_(graph),
        budget_(budget),
        last_read_(lastScheduleReads(graph)),
        read_until_(graph.values.size(), kNone),
        rooms_(largestRooms()) {
    findLiveBytes();
    findFullestOps();
  }

  // Time of replays for reads within these ops.
  Nanoseconds within(std::size_t begin, std::size_t end) {
    Nanoseconds bound = atAllOps(begin, end);
    bound = std::max(bound, atFullestOps(begin, end));
    for (std::size_t op = begin; op < end; ++op) {
      for (ValueId input : graph_.ops[op].inputs) read_until_[input] = kNone;
    }
    return bound;
  }

 private:
  // What is written over is left out: its bytes are another value's later on.
  static bool counts(const Value& value) { return !value.pinned && value.overwritten_by == kNone; }
  bool makesRoom(ValueId id) const {
    const Value& value = graph_.values[id];
    return counts(value) && value.producer != kNone && graph_.ops[value.producer].rerunnable;
  }
  OpId firstRoom(ValueId id) const {
    const Value& value = graph_.values[id];
    return std::max(value.producer, value.last_reference) + 1;
  }
  // May it be gone while the op runs, though something reads it later?
  bool roomAt(OpId op, ValueId id) const {
    return makesRoom(id) && firstRoom(id) <= op && op < last_read_[id];
  }

  std::vector<Room> largestRooms() const {
    std::vector<Room> largest(graph_.ops.size());
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const ValueId id = static_cast<ValueId>(v);
      if (!makesRoom(id) || firstRoom(id) >= last_read_[v]) continue;
      largest[graph_.values[v].producer].bytes += graph_.values[v].bytes;
    }
    for (std::size_t op = 0; op < largest.size(); ++op) {
      largest[op].duration = graph_.ops[op].duration_ns;
    }
    return largest;
  }

  // Per op: fixed bytes, and values live then that the program holds or something reads later; of
  // these what may be gone.
  void findLiveBytes() {
    const OpId ops = static_cast<OpId>(graph_.ops.size());
    std::vector<Bytes> change(graph_.ops.size() + 1, 0), room(graph_.ops.size() + 1, 0);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!counts(value)) continue;
      const OpId made = graph_.lazy_outputs ? value.producer + 1 : value.producer;
      const OpId begin = std::max(made, 0);
      OpId end = std::max(value.last_reference, last_read_[v]);
      if (!graph_.lazy_outputs) end = std::max(end, value.producer);
      end = std::min(end, ops - 1);
      if (end < begin) continue;
      change[begin] += value.bytes;
      change[end + 1] -= value.bytes;
      const OpId first = firstRoom(static_cast<ValueId>(v));
      if (!makesRoom(static_cast<ValueId>(v)) || first >= last_read_[v]) continue;
      room[first] += value.bytes;
      room[last_read_[v]] -= value.bytes;
    }
    std::partial_sum(change.begin(), change.end() - 1, std::back_inserter(live_));
    std::partial_sum(room.begin(), room.end() - 1, std::back_inserter(room_));
    for (std::size_t op = 0; op < live_.size(); ++op) live_[op] += graph_.ops[op].fixed_bytes;
  }

  // Which ops does not depend on the budget, so that the bound rises as that falls.
  void findFullestOps() {
    fullest_.resize(graph_.ops.size());
    std::iota(fullest_.begin(), fullest_.end(), 0);
    const std::size_t looks = kMostLooks / std::max<std::size_t>(graph_.values.size(), 1);
    const std::size_t count = std::min(std::clamp(looks, kLeastOps, kMostOps), fullest_.size());
    std::partial_sort(
        fullest_.begin(), fullest_.begin() + static_cast<std::ptrdiff_t>(count), fullest_.end(),
        [this](OpId a, OpId b) { return std::pair(-live_[a], a) < std::pair(-live_[b], b); });
    fullest_.resize(count);
  }

  // Room without a read in the window costs nothing here. Sets read_until_.
  Nanoseconds atAllOps(std::size_t window_begin, std::size_t window_end) {
    std::vector<ValueId> read;
    for (std::size_t id = window_begin; id < window_end; ++id) {
      const OpId op = static_cast<OpId>(id);
      for (ValueId input : graph_.ops[id].inputs) {
        if (!makesRoom(input) || graph_.programServes(op, input)) continue;
        if (read_until_[input] == kNone) read.push_back(input);
        read_until_[input] = op;
      }
    }
    const std::size_t ops = window_end - window_begin;
    std::vector<std::vector<ValueId>> begin(ops), end(ops);
    for (ValueId value : read) {
      const OpId from = std::max(firstRoom(value), static_cast<OpId>(window_begin));
      if (from >= read_until_[value]) continue;
      begin[static_cast<std::size_t>(from) - window_begin].push_back(value);
      end[static_cast<std::size_t>(read_until_[value]) - window_begin].push_back(value);
    }
    const auto add = [&](ValueId value, Bytes sign) {
      rooms_.add(graph_.values[value].producer, sign * graph_.values[value].bytes);
    };
    Nanoseconds bound = 0;
    for (std::size_t i = 0; i < ops; ++i) {
      const OpId op = static_cast<OpId>(window_begin + i);
      for (ValueId value : begin[i]) add(value, 1);
      for (ValueId value : end[i]) add(value, -1);
      if (live_[op] <= budget_) continue;
      Bytes free = room_[op] - rooms_.liveBytes();
      std::vector<ValueId> own;  // the op's inputs stay
      for (ValueId input : graph_.ops[op].inputs) {
        if (!roomAt(op, input)) continue;
        if (op < read_until_[input]) {
          own.push_back(input);
        } else {
          free -= graph_.values[input].bytes;
        }
      }
      for (ValueId input : own) add(input, -1);
      bound = std::max(bound, rooms_.leastTime(live_[op] - budget_ - free));
      for (ValueId input : own) add(input, 1);
    }
    return bound;
  }

  Nanoseconds atFullestOps(std::size_t window_begin, std::size_t window_end) const {
    Nanoseconds bound = 0;
    for (const OpId op : fullest_) {
      const auto id = static_cast<std::size_t>(op);
      if (window_begin <= id && id < window_end) bound = std::max(bound, at(op));
    }
    return bound;
  }

  Nanoseconds at(OpId op) const {
    Bytes excess = live_[op] - budget_;
    if (excess <= 0) return 0;
    std::vector<Room> rooms(graph_.ops.size());
    const auto& inputs = graph_.ops[op].inputs;
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const ValueId id = static_cast<ValueId>(v);
      if (!roomAt(op, id) || std::find(inputs.begin(), inputs.end(), id) != inputs.end()) continue;
      const Value& value = graph_.values[v];
      if (op < read_until_[v]) {
        rooms[value.producer].bytes += value.bytes;
        rooms[value.producer].duration = graph_.ops[value.producer].duration_ns;
      } else {
        excess -= value.bytes;
      }
    }
    std::erase_if(rooms, [](const Room& room) { return room.bytes == 0; });
    return leastTime(rooms, excess);
  }

  const Graph& graph_;
  const Bytes budget_;
  const std::vector<OpId> last_read_;
  std::vector<OpId> read_until_;  // per value: its last read in the window, through the schedule
  RoomTree rooms_;
  std::vector<Bytes> live_, room_;
  std::vector<OpId> fullest_;
};

}  // namespace

Nanoseconds recomputeLowerBound(const Graph& graph, Bytes budget_bytes) {
  if (graph.any_order || graph.ops.empty()) return 0;
  RecomputeBound bound(graph, budget_bytes);
  const Nanoseconds whole = bound.within(0, graph.ops.size());
  std::vector<std::size_t> begins;  // of forward phases
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const bool begin = id == 0 || (graph.ops[id - 1].backward && !graph.ops[id].backward);
    if (begin) begins.push_back(id);
  }
  if (begins.size() == 1) return whole;
  begins.push_back(graph.ops.size());
  Nanoseconds sum = 0;
  for (std::size_t i = 1; i < begins.size(); ++i) sum += bound.within(begins[i - 1], begins[i]);
  return std::max(whole, sum);
}

}  // namespace ebbtide::scheduler
