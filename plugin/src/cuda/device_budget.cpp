#include "cuda/device_budget.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::plugin::cuda {

using allocator::kUnlimited;

namespace {

constexpr Bytes kMarginPercent = 5;  // of the device, that "auto" leaves free

std::int64_t nowNs() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

DeviceBudget::DeviceBudget(allocator::DeviceMemory& memory, LookAtDevice look_at_device,
                           std::chrono::nanoseconds measure_every)
    : memory_(memory),
      look_at_device_(std::move(look_at_device)),
      measure_every_ns_(measure_every.count()),
      total_bytes_(look_at_device_().total_bytes) {
  memory_.limitOverrun(0);
  apply();
}

DeviceBudget::Asked DeviceBudget::asked() const {
  const auto held = guard_.hold();
  return asked_.with(held);
}

void DeviceBudget::setBudget(Bytes bytes) {
  {
    const auto held = guard_.hold();
    asked_.with(held).budget_bytes = bytes;
  }
  apply();
  measureMargin();
}

void DeviceBudget::setFraction(double fraction) {
  {
    const auto held = guard_.hold();
    asked_.with(held).fraction = fraction;
  }
  apply();
  measureMargin();
  const Bytes overrun = memory_.overrunLimitBytes();
  if (overrun > 0 && overrun != kUnlimited) goOver();
}

Bytes DeviceBudget::mostBytes() const {
  const auto part = static_cast<Bytes>(asked().fraction * static_cast<double>(total_bytes_));
  return std::clamp<Bytes>(part, 0, total_bytes_);
}

scheduler::BudgetFacts DeviceBudget::facts() const {
  const Bytes margin = total_bytes_ / 100 * kMarginPercent;
  return {.memory_bytes = total_bytes_,
          .available_bytes = std::min(total_bytes_ - margin, mostBytes()),
          .others_bytes = others_bytes_};
}

void DeviceBudget::apply() {
  const Bytes most = mostBytes();
  memory_.setBudget(std::min(asked().budget_bytes, most));
}

void DeviceBudget::measureMargin() {
  const Bytes others = lookAtOthers(0);
  memory_.setMargin(isBounded() ? others : 0);
}

bool DeviceBudget::mayMap(Bytes debited_bytes) noexcept {
  const std::int64_t now = nowNs();
  if (now - measured_at_ns_.load(std::memory_order_relaxed) < measure_every_ns_) return true;
  if (!isBounded()) return true;
  memory_.budgetTracker().setMarginBytes(lookAtOthers(debited_bytes));
  return !memory_.budgetTracker().isOverBudget() || allocator::BudgetTracker::allowsOverrunHere();
}

void DeviceBudget::goOver() {
  // A fraction of torch's alone holds as torch's does.
  if (asked().budget_bytes == kUnlimited) return;
  memory_.limitOverrun(std::max<Bytes>(0, *facts().available_bytes - others_bytes_));
}

bool DeviceBudget::isBounded() const {
  const Asked now = asked();
  return now.budget_bytes < total_bytes_ || now.fraction < 1.0;
}

Bytes DeviceBudget::lookAtOthers(Bytes debited_bytes) {
  measured_at_ns_.store(nowNs(), std::memory_order_relaxed);
  // Pages that come or go between the two looks would be counted as others', or not at all; the
  // larger figure makes the margin no larger than it is.
  const Bytes before = memory_.budgetTracker().mappedBytes();
  const allocator::cuda::MemoryInfo info = look_at_device_();
  const Bytes ours = std::max(before, memory_.budgetTracker().mappedBytes()) - debited_bytes;
  const Bytes others = std::max<Bytes>(0, info.total_bytes - info.free_bytes - ours);
  others_bytes_ = others;
  return others;
}

Bytes budgetOf(const std::string& text, const DeviceBudget& device) {
  const auto form = scheduler::BudgetForm::parse("EBBTIDE_BUDGET", text.empty() ? "none" : text);
  return scheduler::resolve(form, device.facts()).value_or(kUnlimited);
}

}  // namespace ebbtide::plugin::cuda
