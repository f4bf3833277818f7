#include "out_of_memory/out_of_memory.hpp"

#include <cmath>
#include <sstream>

#include "ebbtide/scheduler/byte_size.hpp"

namespace ebbtide::plugin {
namespace {

using allocator::Bytes;
using scheduler::formatBytes;

bool onDevice(const OutOfMemory& facts) {
  return facts.device.index >= 0;
}

// Programs look for these words of torch's: batch-size finders for those of a CPU's allocator.
void sayRequest(std::ostream& out, const OutOfMemory& facts) {
  if (onDevice(facts)) {
    out << "CUDA out of memory. Tried to allocate " << formatBytes(facts.request.bytes);
    if (!facts.request.by.empty()) out << " for " << facts.request.by;
    out << ". GPU " << facts.device.index << " has a total capacity of "
        << formatBytes(facts.device.total_bytes) << " of which "
        << formatBytes(facts.device.free_bytes) << " is free.";
    return;
  }
  out << "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory: "
      << formatBytes(facts.request.bytes) << " asked for";
  if (!facts.request.by.empty()) out << " by " << facts.request.by;
  out << '.';
}

void sayBudget(std::ostream& out, const OutOfMemory& facts) {
  const bool limited = facts.budget.bytes != allocator::kUnlimited &&
                       (!onDevice(facts) || facts.budget.bytes < facts.device.total_bytes);
  out << '\n';
  if (limited) {
    out << "Budget " << formatBytes(facts.budget.bytes);
    if (facts.budget.margin_bytes > 0) {
      out << " (" << formatBytes(facts.budget.margin_bytes)
          << " of it in use outside of PyTorch's allocator)";
    }
  } else {
    out << "No budget is set";
  }
  out << "; " << formatBytes(facts.memory.mapped_bytes) << " mapped, "
      << formatBytes(facts.memory.live_bytes) << " in live blocks";
  if (facts.memory.awaiting_bytes > 0) {
    out << ", " << formatBytes(facts.memory.awaiting_bytes) << " freed but in use by other streams";
  }
  out << "; " << formatBytes(facts.memory.free_bytes) << " free, largest run "
      << formatBytes(facts.memory.largest_free_bytes) << " (fragmentation "
      << std::lround(100 * fragmentation(facts)) << "%).";
}

void sayBlocks(std::ostream& out, const OutOfMemory& facts) {
  if (facts.memory.live_by_op.empty()) return;
  out << "\nLive blocks, by what made them:";
  for (const LiveShares::Share& share : facts.memory.live_by_op) {
    out << "\n  " << formatBytes(share.bytes) << "  " << share.made_by;
    if (share.blocks > 0) {
      out << ", " << share.blocks << (share.blocks == 1 ? " block" : " blocks");
    }
  }
}

void sayDeviation(std::ostream& out, const OutOfMemory& facts) {
  if (!facts.first_deviation) return;
  const allocator::PlanDeviation& first = *facts.first_deviation;
  out << "\nThe step first left the order that its addresses were placed for at large block "
      << first.block + 1 << ": ";
  if (first.expected_bytes > 0) {
    out << formatBytes(first.expected_bytes) << " expected";
  } else {
    out << "none expected";
  }
  out << ", " << formatBytes(first.requested_bytes) << " asked for.";
}

void saySpills(std::ostream& out, const OutOfMemory& facts) {
  if (facts.spill_error.empty()) return;
  out << "\nNothing can be spilled: " << facts.spill_error
      << ". Make room there, or name another folder: EBBTIDE_SPILL_DIR.";
}

constexpr const char* kSystemRefuses =
    "has no memory for it, or no addresses (ulimit -v, ulimit -d, a container's limit).";

void sayWhyNotOver(std::ostream& out, const OutOfMemory& facts) {
  if (facts.budget.overrun_limit_bytes == 0) return;
  const bool full =
      facts.memory.mapped_bytes > facts.budget.overrun_limit_bytes - facts.request.block_bytes;
  out << " It may go over the budget, but the ";
  if (onDevice(facts)) {
    out << "device is full" << (full ? " but for 5 %." : ".");
    return;
  }
  out << (full ? "machine, or its control group, is full but for 5 %."
               : std::string("system ") + kSystemRefuses);
}

void sayNoRoom(std::ostream& out, const OutOfMemory& facts, Bytes fits) {
  const std::string total = formatBytes(facts.device.total_bytes);
  out << "It does not fit into ";
  if (facts.device.total_is_of_group) {
    out << "the " << total << " that this process's control group (container, job) may use";
  } else {
    out << "this " << (onDevice(facts) ? "device" : "machine") << "'s " << total;
  }
  out << " beside what is live now.";
  if (fits != allocator::kUnlimited) {
    out << " This allocation alone needs at least " << formatBytes(fits)
        << "; what follows may need more.";
  }
}

void sayWhatFits(std::ostream& out, const OutOfMemory& facts) {
  const Bytes fits = budgetThatFits(facts);
  out << '\n';
  if (fits > facts.device.total_bytes) {
    sayNoRoom(out, facts, fits);
  } else if (fits > facts.budget.bytes) {
    out << "This allocation alone needs at least "
        << (onDevice(facts) ? "a budget of " : "EBBTIDE_BUDGET=") << asSetting(fits)
        << (onDevice(facts) ? "; the rest of the step may need more."
                            : "; what follows may need more: EBBTIDE=1 measures a whole run.");
    sayWhyNotOver(out, facts);
  } else if (onDevice(facts)) {
    out << "The budget has room: memory that graphs keep, or that others took of the device since "
           "it was measured, is in the way.";
  } else {
    out << "It is the system that " << kSystemRefuses;
  }
  if (facts.budget.smallest_feasible_bytes > 0) {
    out << " (For the steps before it: EBBTIDE_BUDGET="
        << asSetting(facts.budget.smallest_feasible_bytes) << ".)";
  }
  const bool can_be_had = fits > facts.budget.bytes && fits <= facts.device.total_bytes;
  if (!onDevice(facts) && can_be_had && facts.budget.overrun_limit_bytes == 0) {
    out << " EBBTIDE_ON_INFEASIBLE=best-effort goes over the budget instead.";
  }
  const std::string growth = describe(facts.growth);
  if (!growth.empty()) out << '\n' << growth;
}

}  // namespace

std::string asSetting(Bytes bytes) {
  constexpr Bytes kMiB = Bytes{1} << 20;
  return std::to_string((bytes + kMiB - 1) / kMiB) + "MiB";
}

std::string describe(const GrowthAdvice& advice) {
  const bool grows = advice.per_step_bytes > 0 && advice.steps > 0;
  if (!grows && advice.over_bytes <= 0) return "";
  const std::string this_one = "EBBTIDE_BUDGET=" + asSetting(advice.budget_bytes);
  const std::string more = "EBBTIDE_BUDGET=" + asSetting(advice.budget_for_steps_bytes);
  std::ostringstream out;
  if (!grows) {
    out << "This step began with " << formatBytes(advice.over_bytes) << " more than step "
        << advice.judged_step << ", by which the budget was judged: try " << this_one << '.';
  } else if (advice.at_once) {
    out << "What lives when a step begins has just grown by " << formatBytes(advice.per_step_bytes)
        << " in one step. For such a step try " << this_one << "; for " << advice.steps
        << " more that grow as much, " << more << '.';
  } else {
    out << "What lives when a step begins grows by " << formatBytes(advice.per_step_bytes)
        << " a step since step " << advice.judged_step << ". For " << advice.steps
        << " more such steps try " << more << '.';
  }
  return out.str();
}

double fragmentation(const OutOfMemory& facts) noexcept {
  if (facts.memory.free_bytes <= 0) return 0;
  return 1 - static_cast<double>(facts.memory.largest_free_bytes) /
                 static_cast<double>(facts.memory.free_bytes);
}

Bytes budgetThatFits(const OutOfMemory& facts) noexcept {
  if (facts.request.block_bytes == allocator::kUnlimited) return allocator::kUnlimited;
  return facts.memory.live_bytes + facts.memory.awaiting_bytes + facts.memory.stuck_bytes +
         facts.budget.margin_bytes + facts.request.block_bytes;
}

std::string describe(const OutOfMemory& facts) {
  std::ostringstream out;
  sayRequest(out, facts);
  sayBudget(out, facts);
  sayBlocks(out, facts);
  sayDeviation(out, facts);
  saySpills(out, facts);
  sayWhatFits(out, facts);
  return out.str();
}

std::string describeLoweredBudget(Bytes budget_bytes, Bytes margin_bytes, Bytes mapped_bytes) {
  std::string text = "the budget was lowered to " + formatBytes(budget_bytes);
  if (margin_bytes > 0) text += " (others hold " + formatBytes(margin_bytes) + " of it)";
  return text + " while live blocks hold " + formatBytes(mapped_bytes) +
         ": pages are given back as they are freed, and no more are mapped until then";
}

}  // namespace ebbtide::plugin
