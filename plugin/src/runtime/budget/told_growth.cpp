#include "runtime/budget/told_growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "ebbtide/scheduler/kept_blocks.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kLeastPart = 4;  // of what has grown: what is told by name

}  // namespace

std::int64_t ToldGrowth::since(const Held&, Bytes base_bytes) const noexcept {
  const auto growth = growth_.found();
  if (!growth || !growth->isGrowth()) return 0;
  return std::max<Bytes>(0, growth->bytes - std::max(base_bytes, growth->from_bytes));
}

// The smallest budget that is told is that of the base as it is now.
void ToldGrowth::update(const Held& held) noexcept {
  bytes_ = since(held, floor_.neededBaseBytes());
  since_judged_bytes_ = since(held, 0);
}

void ToldGrowth::note(const Held&, std::int64_t step, Bytes base_bytes) {
  due_ = growth_.note(step, base_bytes) || due_;
}

void ToldGrowth::settle(const Held&, std::int64_t step, Bytes before, Bytes base_bytes) {
  growth_.settle(step - 1, before);  // it may be growing already
  due_ = growth_.note(step, base_bytes);
}

// The smallest budget that is told is that of the base as it is now, too: a copy of the weights,
// made late, counts in it.
void ToldGrowth::measure(const Held& held, std::int64_t steps, Bytes base_bytes) {
  if (growth_.found()) {
    growth_.note(steps + 1, base_bytes);
  } else {
    growth_.settle(steps, base_bytes);
  }
  update(held);
}

std::optional<BaseGrowth::Found> ToldGrowth::takeDue(const Held&) {
  return std::exchange(due_, false) ? growth_.found() : std::nullopt;
}

// "aten::clone made 1.5 MiB in 6 blocks of 256.0 KiB after step 6 began": what came outside of
// recorded operations, where it is a good part of what more lives now. Empty: not known.
std::string ToldGrowth::madeLater(Bytes more_bytes) const {
  const auto most = run_.trained.later().largest();
  if (!most || most->bytes * kLeastPart < more_bytes) return "";
  const std::string each = most->each_bytes > 0 ? " of " + formatBytes(most->each_bytes) : "";
  const std::string when = most->times == 1
                               ? fmt::format("after step {} began", most->step)
                               : fmt::format("{} times since step {}", most->times, most->step);
  return fmt::format("{} made {} in {} block{}{} {}", most->by, formatBytes(most->bytes),
                     most->blocks, most->blocks == 1 ? "" : "s", each, when);
}

void ToldGrowth::say(const BaseGrowth::Found& growth, const scheduler::Trace& trace) try {
  auto kept = scheduler::keptBlocks(trace);
  if (!kept.empty() && kept.front().bytes * 10 < growth.perStepBytes()) kept.clear();
  const bool known = !kept.empty() && kept.front().known;
  const std::string later = known ? "" : madeLater(growth.grownBytes());
  {
    const Held held = run_.guard.hold();
    kept_by_ = kept.empty() || !later.empty() ? "" : kept.front().by;
  }
  const std::string made =
      !later.empty()  ? "; " + later
      : !kept.empty() ? fmt::format("; the last step kept {} more, made by {}",
                                    formatBytes(kept.front().bytes), kept.front().by)
                      : "; the last step kept little more: it came once, or comes now and then (a "
                        "second network, copies of weights, a history)";
  run_.say(
      fmt::format("what lives when a step begins has grown from {} at step {} to {} at step {}{}",
                  formatBytes(growth.from_bytes), growth.from_step, formatBytes(growth.bytes),
                  growth.step, made));
} catch (const std::exception& error) {
  run_.warn(std::string("what lives longer than a step could not be told: ") + error.what());
}

// In place of what nobody named.
void ToldGrowth::nameKept(const BaseGrowth::Found& growth, OutOfMemory& facts) const {
  const Bytes rest = facts.memory.live_by_op.empty() || facts.memory.live_by_op.back().blocks > 0
                         ? 0
                         : facts.memory.live_by_op.back().bytes;
  if (!growth.isGrowth() || rest < growth.grownBytes()) return;
  const std::string later = kept_by_.empty() ? madeLater(growth.grownBytes()) : "";
  const std::string made = !kept_by_.empty() ? ", made by " + kept_by_
                           : !later.empty()  ? ": " + later
                                             : "";
  facts.memory.live_by_op.back().made_by = fmt::format(
      "kept from step to step: {} at step {}, {} now{}", formatBytes(rest - growth.grownBytes()),
      growth.from_step, formatBytes(rest), made);
}

void ToldGrowth::addTo(const Held&, OutOfMemory& facts) const {
  const auto growth = growth_.found();
  if (!growth) return;
  nameKept(*growth, facts);
  // What was recorded since then needs some of it already.
  const Bytes counted = std::max<Bytes>(0, floor_.neededBaseBytes() - growth->from_bytes);
  const Bytes over = growth_.overBytes(), above = std::max(over, growth->grownBytes());
  const Bytes more = std::max<Bytes>(0, above - counted);
  const Bytes mean = growth->isGrowth() ? growth->perStepBytes() : 0;
  const Bytes rise = growth_.riseBytes() <= above ? growth_.riseBytes() : 0;  // else it is gone
  const Bytes needed = std::max(budgetThatFits(facts), floor_.neededBytes() + more);
  if (needed > facts.device.total_bytes) return;  // no budget does
  const auto named = [&](std::int64_t steps) {
    return run_.trained.namedBudgetBytes(needed + steps * std::max(rise, mean));
  };
  if (named(0) > facts.device.total_bytes) return;
  std::int64_t steps = std::max(rise, mean) > 0 ? GrowthAdvice::kMostSteps : 0;
  while (named(steps) > facts.device.total_bytes) --steps;
  facts.growth = {.judged_step = growth->from_step,
                  .over_bytes = growth->isGrowthBy(over) ? over : 0,
                  .per_step_bytes = std::max(rise, mean),
                  .at_once = rise > mean,
                  .budget_bytes = named(0),
                  .steps = steps,
                  .budget_for_steps_bytes = named(steps)};
}

}  // namespace ebbtide::plugin
