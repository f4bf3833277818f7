#include "order.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "captures.hpp"
#include "device.hpp"
#include "settings.hpp"
#include "touched_bytes.hpp"

namespace emulated_gpu {
namespace {

constexpr int kExitStatus = 86;       // of a process with reports, in place of 0
constexpr std::size_t kPrinted = 50;  // reports; the others are counted

// As long as the process lives: libraries call until its very end.
struct State {
  TouchedBytes bytes;
  Seen host;
  std::vector<std::string> lane_names;
  int graphs = 0;
};

State& state() {
  static auto* const all = new State;
  return *all;
}

std::size_t reports = 0, printed = 0;

// Before any other library's handler, so that it runs after theirs.
[[gnu::constructor]] void tellAtExit() {
  const auto tell = [](int status, void*) {
    if (reports == 0) return;
    std::fprintf(stderr, "emulated GPU: %zu accesses in no order\n", reports);
    if (status != 0) return;
    std::fflush(nullptr);
    _exit(kExitStatus);
  };
  on_exit(tell, nullptr);
}

void join(Seen& seen, const Seen& other) {
  if (seen.size() < other.size()) seen.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) seen[i] = std::max(seen[i], other[i]);
}

std::uint64_t& ofLane(Seen& seen, int lane) {
  const auto at = static_cast<std::size_t>(lane);
  if (seen.size() <= at) seen.resize(at + 1);
  return seen[at];
}

int newLane(std::string name) {
  state().lane_names.push_back(std::move(name));
  return static_cast<int>(state().lane_names.size()) - 1;
}

void giveLane(CUstream_st& stream) {
  if (stream.lane.index >= 0) return;
  const auto& all = stream.device->streams;
  const auto at = std::find(all.begin(), all.end(), &stream) - all.begin();
  stream.lane.index = newLane(stream.legacy ? "the legacy stream" : "stream " + std::to_string(at));
}

std::string named(const Touch& touch) {
  const std::string& lane = state().lane_names[static_cast<std::size_t>(touch.lane)];
  return std::string(touch.name) + " (task " + std::to_string(touch.number) + " of " + lane + ")";
}

// Which of the earlier lane's tasks it does come after.
std::string missing(const Touch& earlier, const Seen& seen) {
  const auto lane = static_cast<std::size_t>(earlier.lane);
  const std::uint64_t until = lane < seen.size() ? seen[lane] : 0;
  const std::string last = until == 0 ? "no task" : "task " + std::to_string(until) + " at most";
  return "it comes after " + last + " of " + state().lane_names[lane];
}

class Checked {
 public:
  Checked(std::string later, const Seen& seen) : later_(std::move(later)), seen_(seen) {}

  // One line for each two tasks.
  void check(const Access& access) {
    state().bytes.check(access, seen_, [&](const Touch& earlier, bool writes, auto range) {
      if (told_.emplace(earlier.lane, earlier.number).second) {
        report(access, earlier, writes, range);
      }
    });
  }

 private:
  void report(const Access& access, const Touch& earlier, bool writes, TouchedBytes::Range range) {
    ++reports;
    if (++printed > kPrinted) return;
    std::fprintf(stderr,
                 "emulated GPU: no order: %s %s %zu bytes at 0x%" PRIxPTR
                 " that %s %s: %s, by events, streams and the host's waits\n",
                 later_.c_str(), access.writes ? "writes" : "reads", range.end - range.begin,
                 range.begin, named(earlier).c_str(), writes ? "writes" : "reads",
                 missing(earlier, seen_).c_str());
  }

  std::string later_;
  const Seen& seen_;
  std::set<std::pair<int, std::uint64_t>> told_;
};

void touch(const Work& work, int lane, const Seen& seen) {
  if (work.accesses.empty()) return;
  const Touch own{lane, seen[static_cast<std::size_t>(lane)], work.name};
  Checked checked(named(own), seen);
  for (const Access& each : work.accesses) checked.check(each);
  // Writes last: they stand for a read of the same bytes.
  for (const bool writes : {false, true}) {
    for (const Access& each : work.accesses) {
      if (each.writes == writes) state().bytes.note(each, own, seen);
    }
  }
}

// A node goes on with the lane of one that it comes after, if no other does.
std::vector<int> chains(const std::vector<Node>& nodes) {
  const std::string graph = "graph " + std::to_string(++state().graphs);
  std::vector<int> result;
  std::vector<bool> goes_on(nodes.size(), false);
  int own = 0;
  for (const Node& node : nodes) {
    const auto free = [&](int each) { return !goes_on[static_cast<std::size_t>(each)]; };
    const auto found = std::find_if(node.after.begin(), node.after.end(), free);
    if (found == node.after.end()) {
      result.push_back(newLane("chain " + std::to_string(++own) + " of " + graph));
      continue;
    }
    goes_on[static_cast<std::size_t>(*found)] = true;
    result.push_back(result[static_cast<std::size_t>(*found)]);
  }
  return result;
}

}  // namespace

void orderAsked(CUstream_st* stream) {
  if (!settings().order) return;
  giveLane(*stream);
  Seen& seen = stream->lane.seen;
  join(seen, state().host);
  if (stream->legacy) {
    for (const CUstream other : stream->device->streams) {
      if (other->blocking) join(seen, other->lane.seen);
    }
  } else if (stream->blocking) {
    join(seen, stream->device->legacy->lane.seen);
  }
}

void orderTask(CUstream_st* stream, const Work& work) {
  if (!settings().order) return;
  orderAsked(stream);
  ++ofLane(stream->lane.seen, stream->lane.index);
  touch(work, stream->lane.index, stream->lane.seen);
}

void orderGraph(CUstream_st* stream, GraphLanes& lanes, const std::vector<Node>& nodes) {
  if (!settings().order) return;
  orderAsked(stream);
  ++ofLane(stream->lane.seen, stream->lane.index);
  if (lanes.of_node.empty()) lanes.of_node = chains(nodes);
  join(stream->lane.seen, lanes.seen);
  const Seen begin = stream->lane.seen;
  std::vector<Seen> seen(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    seen[i] = begin;
    for (const int earlier : nodes[i].after) join(seen[i], seen[static_cast<std::size_t>(earlier)]);
    ++ofLane(seen[i], lanes.of_node[i]);
    touch(nodes[i].work, lanes.of_node[i], seen[i]);
    join(stream->lane.seen, seen[i]);
  }
  lanes.seen = stream->lane.seen;
}

void orderWait(CUstream_st* stream, const Seen& recorded) {
  if (!settings().order) return;
  orderAsked(stream);
  join(stream->lane.seen, recorded);
}

void orderHost(const Seen& done) {
  if (settings().order) join(state().host, done);
}

void orderHost(const Device& device) {
  for (const CUstream stream : device.streams) orderHost(stream->lane.seen);
}

void orderHostAccess(const char* what, const Access& access) {
  if (!settings().order) return;
  Checked(what, state().host).check(access);
}

void orderForget(const void* begin, std::size_t bytes) {
  if (!settings().order) return;
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  state().bytes.forget({at, at + bytes});
}

std::size_t takeOrderReports() {
  return std::exchange(reports, 0);
}

}  // namespace emulated_gpu
