#include "out_of_memory.hpp"

#include <c10/core/Allocator.h>

#include <cmath>
#include <sstream>

namespace ebbtide::plugin::cuda {
namespace {

std::string text(allocator::Bytes bytes) {
  return c10::CachingAllocator::format_size(static_cast<std::uint64_t>(bytes));
}

}  // namespace

double fragmentation(const OutOfMemory& facts) noexcept {
  if (facts.idle_bytes <= 0) return 0;
  return 1 - static_cast<double>(facts.largest_idle_bytes) / static_cast<double>(facts.idle_bytes);
}

allocator::Bytes budgetThatFits(const OutOfMemory& facts) noexcept {
  return facts.live_bytes + facts.awaiting_bytes + facts.margin_bytes + facts.block_bytes;
}

std::string describe(const OutOfMemory& facts) {
  std::ostringstream out;
  out << "CUDA out of memory. Tried to allocate " << text(facts.requested_bytes) << ". GPU "
      << facts.device << " has a total capacity of " << text(facts.device_total_bytes)
      << " of which " << text(facts.device_free_bytes) << " is free. ";
  if (facts.budget_bytes < facts.device_total_bytes) {
    out << "Ebbtide's budget is " << text(facts.budget_bytes) << ", of which "
        << text(facts.margin_bytes) << " is in use outside of PyTorch's allocator. ";
  }
  out << "PyTorch holds " << text(facts.mapped_bytes) << ": " << text(facts.live_bytes)
      << " in live blocks";
  if (facts.awaiting_bytes > 0) {
    out << ", " << text(facts.awaiting_bytes) << " freed but in use by other streams";
  }
  out << ", " << text(facts.idle_bytes) << " idle (largest run " << text(facts.largest_idle_bytes)
      << ", fragmentation " << std::lround(100 * fragmentation(facts)) << "%); "
      << facts.live_blocks << " blocks. ";
  const allocator::Bytes fits = budgetThatFits(facts);
  if (fits <= facts.device_total_bytes && fits > facts.budget_bytes) {
    out << "With what is live now, a budget of " << text(fits) << " or more holds it.";
  } else if (fits > facts.device_total_bytes) {
    out << "With what is live now it does not fit on this device.";
  } else {
    out << "The budget has room: memory that graphs keep, or that others took of the device since "
           "it was measured, is in the way.";
  }
  return out.str();
}

}  // namespace ebbtide::plugin::cuda
