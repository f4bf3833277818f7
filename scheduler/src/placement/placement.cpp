#include "ebbtide/scheduler/placement.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "ebbtide/scheduler/most_amount.hpp"
#include "placement/attempts.hpp"
#include "placement/buffer_orders.hpp"
#include "placement/height_search.hpp"
#include "placement/live_sections.hpp"
#include "placement/ordered_packer.hpp"
#include "placement/placement_check.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::size_t kMostBuffers = std::size_t{1} << 28;

void checkProblem(const PlacementProblem& problem) {
  if (problem.buffers.size() > kMostBuffers) {
    throw std::invalid_argument("there are more than 2^28 buffers");
  }
  if (problem.alignment_bytes < 1 || problem.alignment_bytes > kMostAmount) {
    throw std::invalid_argument("the alignment is not 1 to 2^60");
  }
  if (const auto fault = findFault(problem)) {
    throw std::invalid_argument("buffer " + std::to_string(fault->buffer) + " " + fault->what);
  }
}

std::vector<std::int32_t> notEmpty(const PlacementProblem& problem) {
  std::vector<std::int32_t> which;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].bytes > 0) which.push_back(static_cast<std::int32_t>(i));
  }
  return which;
}

struct Packed {
  Packing packing;
  std::string method;
};

// The lowest of all orders with both fits, and of equals the first. Only what is higher than the
// lowest so far is given up, so that the result does not depend on the threads.
Packed bestPacking(const LiveSections& sections, const PlacementOptions& options, Bytes goal) {
  const std::vector<BufferOrder>& orders = packingOrders();
  const BufferOrders spans(sections);
  std::vector<Packing> packings(2 * orders.size());
  std::atomic<Bytes> lowest = std::numeric_limits<Bytes>::max() - 1;
  const auto attempt = [&](std::size_t i, const std::atomic<bool>&) {
    const Fit fit = i < orders.size() ? Fit::kFirst : Fit::kBest;
    // One has to be whole, whoever waits.
    const SearchEnd end = i == 0 ? SearchEnd() : SearchEnd(options);
    if (end.reached()) return false;
    packings[i] =
        packInOrder(sections, spans.spans(orders[i % orders.size()]), fit, lowest + 1, end);
    if (packings[i].offsets.empty()) return false;
    const Bytes height = packings[i].height_bytes;
    Bytes seen = lowest;
    while (height < seen && !lowest.compare_exchange_weak(seen, height)) continue;
    return height <= goal;
  };
  // What came later may be there or not, as the threads had time.
  packings.resize(
      std::min(firstSuccess(packings.size(), options.threads, attempt) + 1, packings.size()));
  const auto lower = [](const Packing& a, const Packing& b) {
    return !a.offsets.empty() && (b.offsets.empty() || a.height_bytes < b.height_bytes);
  };
  const auto best = static_cast<std::size_t>(
      std::min_element(packings.begin(), packings.end(), lower) - packings.begin());
  const char* fit = best < orders.size() ? "first fit by " : "best fit by ";
  return {std::move(packings[best]), fit + std::string(orders[best % orders.size()].name)};
}

}  // namespace

Bytes placementLoad(const PlacementProblem& problem) {
  checkProblem(problem);
  return liveSections(problem, notEmpty(problem)).load_bytes;
}

Placement place(const PlacementProblem& problem, const PlacementOptions& options) {
  checkProblem(problem);
  Placement placement;
  placement.offsets.assign(problem.buffers.size(), 0);
  const std::vector<std::int32_t> which = notEmpty(problem);
  if (which.empty()) {
    placement.optimal = true;
    placement.method = "nothing to place";
    return placement;
  }
  const LiveSections sections = liveSections(problem, which);
  const Bytes goal = std::max(sections.load_bytes, options.capacity_bytes);
  Packed start = bestPacking(sections, options, goal);
  HeightSearch search(sections, options, std::move(start.packing), std::move(start.method));
  search.run(goal);
  for (std::size_t i = 0; i < which.size(); ++i) {
    placement.offsets[which[i]] = search.best().offsets[i];
  }
  placement.height_bytes = search.best().height_bytes;
  placement.load_bytes = sections.load_bytes;
  placement.optimal = placement.height_bytes <= search.least();
  placement.method = search.method();
  return placement;
}

}  // namespace ebbtide::scheduler
