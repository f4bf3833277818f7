// A sweep over time: the live ranges, ordered by offset, are disjoint, so a birth has to be
// compared with its two neighbours only.
#include "ebbtide/scheduler/placement_validator.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "ebbtide/scheduler/most_amount.hpp"

namespace ebbtide::scheduler {
namespace {

struct Event {
  std::int64_t time;
  bool birth;  // deaths come first: lifetimes are half open
  std::size_t buffer;
};

std::vector<Event> eventsOf(const std::vector<Buffer>& buffers) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes == 0) continue;
    events.push_back({buffers[i].lower, true, i});
    events.push_back({buffers[i].upper, false, i});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : !a.birth && b.birth;
  });
  return events;
}

std::string text(std::size_t number) {
  return std::to_string(number);
}

}  // namespace

std::optional<std::string> validate(const PlacementProblem& problem, const Placement& placement,
                                    std::optional<Bytes> capacity_bytes) {
  const std::vector<Buffer>& buffers = problem.buffers;
  const std::vector<Bytes>& offsets = placement.offsets;
  const Bytes unit = problem.alignment_bytes;
  if (offsets.size() != buffers.size()) {
    return text(offsets.size()) + " offsets for " + text(buffers.size()) + " buffers";
  }
  std::vector<Bytes> tops(buffers.size());
  Bytes height = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0) return "the offset of buffer " + text(i) + " is below 0";
    if (offsets[i] > kMostAmount) return "the offset of buffer " + text(i) + " is over 2^60";
    if (offsets[i] % unit != 0) return "the offset of buffer " + text(i) + " is not aligned";
    tops[i] = offsets[i] + (buffers[i].bytes + unit - 1) / unit * unit;
    height = std::max(height, tops[i]);
  }
  if (height != placement.height_bytes) {
    return "the height is " + std::to_string(height) + ", not " +
           std::to_string(placement.height_bytes);
  }
  if (capacity_bytes && height > *capacity_bytes) {
    return "the height " + std::to_string(height) + " is above the capacity " +
           std::to_string(*capacity_bytes);
  }
  std::map<Bytes, std::size_t> live;  // by offset
  Bytes sum = 0, load = 0;
  for (const Event& event : eventsOf(buffers)) {
    const std::size_t i = event.buffer;
    sum += (tops[i] - offsets[i]) * (event.birth ? 1 : -1);
    load = std::max(load, sum);
    if (!event.birth) {
      live.erase(offsets[i]);
      continue;
    }
    const auto above = live.lower_bound(offsets[i]);
    if (above != live.end() && above->first < tops[i]) {
      return "buffers " + text(above->second) + " and " + text(i) + " overlap";
    }
    if (above != live.begin() && tops[std::prev(above)->second] > offsets[i]) {
      return "buffers " + text(std::prev(above)->second) + " and " + text(i) + " overlap";
    }
    live.emplace(offsets[i], i);
  }
  if (load == placement.load_bytes) return std::nullopt;
  return "LOAD is " + std::to_string(load) + ", not " + std::to_string(placement.load_bytes);
}

}  // namespace ebbtide::scheduler
