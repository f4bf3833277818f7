#include "placement/placement_check.hpp"

#include "ebbtide/scheduler/most_amount.hpp"

namespace ebbtide::scheduler {
namespace {

std::string faultOf(const Buffer& buffer) {
  if (buffer.lower < -kMostAmount || buffer.upper > kMostAmount)
    return "is alive outside of +-2^60";
  if (buffer.lower >= buffer.upper) return "has an upper end that is not above the lower one";
  if (buffer.bytes < 0) return "has a negative size";
  if (buffer.bytes > kMostAmount) return "has a size over 2^60";
  return "";
}

}  // namespace

std::optional<BufferFault> findFault(const PlacementProblem& problem) {
  const Bytes unit = problem.alignment_bytes;
  Bytes sum = 0;  // up to here at most 2^60, each size rounded up at most 2^61
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (std::string what = faultOf(buffer); !what.empty()) return BufferFault{i, std::move(what)};
    sum += (buffer.bytes + unit - 1) / unit * unit;
    if (sum > kMostAmount) return BufferFault{i, "brings the sum of the sizes over 2^60"};
  }
  return std::nullopt;
}

}  // namespace ebbtide::scheduler
