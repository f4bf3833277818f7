#include "memory/trained_memory.hpp"

#include <algorithm>
#include <utility>

#include "base/no_budget.hpp"
#include "base/system_time.hpp"
#include "config/available_memory.hpp"
#include "ebbtide/allocator/host_address_space.hpp"
#include "memory/dropped_blocks.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Bytes;

constexpr double kHeadroom = 0.005;  // of the budget: rounding and order of frees
constexpr Bytes kLeastHeadroom = 1 << 20;
// Pages of a GPU are 2 MiB, and one with a live block in it serves blocks of its stream alone.
constexpr double kHeadroomElsewhere = 0.03;
constexpr Bytes kLeastHeadroomElsewhere = 16 << 20;
constexpr std::int64_t kRefusalNs = 1'000'000'000;
constexpr std::chrono::seconds kLimitHolds{1};

}  // namespace

TrainedMemory::TrainedMemory(const CurrentConfig& config)
    : config_(config),
      host_(std::make_unique<allocator::DeviceMemory>(
          allocator::makeHostAddressSpace(), allocator::makeHostEvents(),
          allocator::DeviceMemory::Options{.reserve_bytes = allocator::hostReserveBytes()})),
      memory_(host_.get()),
      file_(config->files.spill_dir, config->local_world_size) {
  observer_.emplace(*memory_);
  placement_.emplace(*memory_);
  if (config->budget.bytes) memory_->setBudget(*config->budget.bytes);
}

bool TrainedMemory::moveTo(allocator::DeviceMemory& memory, SpillTarget& spills,
                           SetBudget set_budget, MostBytes most_bytes, Facts facts) {
  spills_ = &spills;
  set_budget_ = std::move(set_budget);
  most_bytes_ = std::move(most_bytes);
  facts_ = std::move(facts);
  if (&memory == memory_) return false;
  memory_ = &memory;
  observer_.emplace(memory);
  placement_.reset();
  return true;
}

std::optional<std::int64_t> TrainedMemory::budgetBytes() const noexcept {
  const std::int64_t bytes = memory_->budgetTracker().budgetBytes();
  return measures_only_ || bytes == allocator::kUnlimited ? std::nullopt : std::optional(bytes);
}

void TrainedMemory::setBudget(const std::string& size) {
  const std::int64_t before = budgetBytes().value_or(allocator::kUnlimited);
  const auto form = scheduler::BudgetForm::parse("EBBTIDE_BUDGET", size.empty() ? "none" : size);
  if (set_budget_) {
    if (!form.isNone()) limitOverrun();
    set_budget_(size);
  } else {
    const std::int64_t bytes =
        scheduler::resolve(form, config_->memoryFacts()).value_or(allocator::kUnlimited);
    // First: of two threads the other one may allocate meanwhile.
    if (!isElsewhere() && bytes != before) limitOverrun();
    memory_->setBudget(bytes);
  }
  measures_only_ = form.isNone();
}

scheduler::BudgetFacts TrainedMemory::memoryFacts() const {
  if (facts_) return facts_();
  if (isElsewhere()) return {};
  scheduler::BudgetFacts facts = config_->memoryFacts();
  facts.available_bytes = std::min(*facts.memory_bytes, reachableBytes(kFreeShare));
  return facts;
}

scheduler::BudgetMargins TrainedMemory::margins() const {
  return {.headroom_share = isElsewhere() ? kHeadroomElsewhere : kHeadroom,
          .least_headroom_bytes = isElsewhere() ? kLeastHeadroomElsewhere : kLeastHeadroom,
          .unplanned_bytes = unplannedBytes()};
}

std::int64_t TrainedMemory::headroomBytes(std::int64_t budget_bytes) const {
  return margins().headroomBytes(budget_bytes);
}

std::int64_t TrainedMemory::budgetWithRoomFor(std::int64_t bytes) const {
  return margins().budgetWithRoomFor(bytes);
}

std::int64_t TrainedMemory::namedBudgetBytes(std::int64_t needed_bytes) const {
  return margins().namedBudgetBytes(needed_bytes);
}

// Past the end of the machine's memory the system ends processes, ours or others.
void TrainedMemory::limitOverrun() {
  if (!isElsewhere()) return memory_->limitOverrun(reachableBytes(kFreeShare));
  const scheduler::BudgetFacts facts = memoryFacts();
  const Bytes all = facts.available_bytes.value_or(allocator::kUnlimited);
  memory_->limitOverrun(std::max<Bytes>(0, all - facts.others_bytes));
}

void TrainedMemory::keepOverrunLimit() {
  const auto now = std::chrono::steady_clock::now();
  if (memory_->overrunLimitBytes() > 0 && now < overrun_limit_until_) return;
  limitOverrun();
  overrun_limit_until_ = now + kLimitHolds;
}

// Small blocks lie in chunks: what is free beside them where a step is largest no plan can use. At
// other moments it may be much more. Nor can one use what others hold of the device.
std::int64_t TrainedMemory::planningCapBytes(std::optional<std::int64_t> budget_bytes) const {
  if (!budget_bytes) return kNoBudgetBytes - unplannedBytes() - headroomBytes(0);
  return margins().capBytes(*budget_bytes);
}

std::int64_t TrainedMemory::unplannedBytes() const {
  return othersBytes() + std::max<Bytes>(0, slack_at_peak_bytes_);
}

// Without a budget its tracker knows of no margin.
std::int64_t TrainedMemory::othersBytes() const {
  const Bytes margin = memory_->budgetTracker().marginBytes();
  return margin > 0 || !facts_ ? margin : facts_().others_bytes;
}

std::int64_t TrainedMemory::reachableBytes(double free_share) const {
  if (most_bytes_) return most_bytes_();
  if (isElsewhere()) return allocator::kUnlimited;
  // What is mapped but was never written takes of what is left once it is. Asked for first: what is
  // written meanwhile is not counted twice.
  const allocator::MappedExtents extents = memory_->mappedExtents();
  Bytes untouched = -residentBytes(extents);
  for (const allocator::MappedExtent& extent : extents) untouched += extent.bytes;
  const Bytes mapped = memory_->budgetTracker().mappedBytes();
  // Pages that were only read are in memory, too: the system's page of zeros.
  const Bytes written =
      std::clamp<Bytes>(mapped - untouched, 0, residentAnonymousBytes().value_or(mapped));
  const Bytes left = availableMemoryBytes(free_share) / std::max(1, config_->local_world_size);
  return left > allocator::kUnlimited - written ? allocator::kUnlimited : written + left;
}

scheduler::HostCopies TrainedMemory::hostCopies() {
  // Memory that the user did not point to is not ours to take beside the budget.
  const bool only_memory =
      spills_ == &file_ && config_->files.spill_dir.empty() && file_.inMemory();
  if (!config_->planning.offload || offload_fails_ || only_memory) return {};
  return {spills_->roundTripBytesPerSecond(), SpillTarget::kLeastBytes};
}

bool TrainedMemory::stopOffload() noexcept {
  refused_at_ns_ = steadyNanoseconds();
  return !offload_fails_.exchange(true);
}

bool TrainedMemory::hostRefuses() const noexcept {
  return offload_fails_ && steadyNanoseconds() - refused_at_ns_ < kRefusalNs;
}

TrainedMemory::~TrainedMemory() {
  memory_->setWatcher(nullptr);
}

void TrainedMemory::watchLater(std::int64_t step, std::int64_t base_bytes) {
  later_.start(step, base_bytes);
  memory_->setWatcher(&later_);
  watches_later_ = true;
}

void TrainedMemory::forgetLater() {
  if (!std::exchange(watches_later_, false)) return;
  memory_->setWatcher(nullptr);
  later_.start(0, 0);
}

// In the order in which they are taken.
void TrainedMemory::lockForFork() {
  file_.lockForFork();
  observer_->lockForFork();
  later_.lockForFork();
  droppedBlocks().lockForFork();
  host_->lockForFork();
  if (isElsewhere()) memory_->lockForFork();
}

void TrainedMemory::unlockAfterFork() {
  if (isElsewhere()) memory_->unlockAfterFork();
  host_->unlockAfterFork();
  droppedBlocks().unlockAfterFork();
  later_.unlockAfterFork();
  observer_->unlockAfterFork();
  file_.unlockAfterFork();
}

void TrainedMemory::beInert() {
  host_->setBudget(allocator::kUnlimited);
  host_->setReclaimer(nullptr);
  host_->setObserver(nullptr);
  host_->setWatcher(nullptr);
  host_->recording().stop();
  host_->placed().beginStep(allocator::Stream::kDefault, nullptr, false);
}

// What it had of its parent, and what it made before it began to train, is counted already.
void TrainedMemory::beActive() {
  if (config_->budget.bytes) host_->setBudget(*config_->budget.bytes);
}

bool hasAmpleBudget(const TrainedMemory& memory) noexcept {
  const std::optional<std::int64_t> budget = memory.budgetBytes();
  return !budget || memory.memory().budgetTracker().roomBytes() >= *budget / 2;
}

}  // namespace ebbtide::plugin
