#include "session.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "dropped_blocks.hpp"
#include "ebbtide/allocator/host_address_space.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

std::atomic<Session*> the_session{nullptr};
std::atomic<bool> in_child{false};

constexpr auto kRest = std::chrono::seconds(2);  // then a step's thread may be gone for good
constexpr std::size_t kHistory = 64;       // steps: the longest turn of programs that is foreseen
constexpr std::size_t kPlannedAtOnce = 8;  // programs; of more, those that came back
constexpr std::size_t kMostPrograms = 64;  // beyond, the one with the fewest steps is forgotten

double seconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

}  // namespace

Session* Session::current() noexcept {
  return the_session.load(std::memory_order_acquire);
}
bool Session::inChild() noexcept {
  return in_child.load(std::memory_order_relaxed);
}

Session::Session(Config config, AuditCache::Host host)
    : config_(std::move(config)),
      host_(std::move(host)),
      host_memory_(std::make_unique<allocator::DeviceMemory>(
          allocator::makeHostAddressSpace(), allocator::makeHostEvents(),
          allocator::DeviceMemory::Options{.reserve_bytes = allocator::hostReserveBytes()})),
      memory_(host_memory_.get()),
      file_(config_.spill_dir, config_.local_world_size),
      metrics_({config_.rank, config_.local_rank}) {
  observer_.emplace(*memory_);
  placement_.emplace(*memory_);
  if (config_.budget_bytes) memory_->setBudget(*config_.budget_bytes);
  if (config_.stage_budgets) stage_budget_.emplace(*config_.stage_budgets, config_.rank);
  metrics_.setBudgetBytes(config_.budget_bytes.value_or(allocator::kUnlimited));
}

// Leaked on purpose: tensors freed during static destruction still reach the allocator.
void Session::start(Config config, AuditCache::Host host) {
  auto* session = new Session(std::move(config), std::move(host));
  the_session.store(session, std::memory_order_release);
  pthread_atfork([] { current()->lockForFork(); }, [] { current()->unlockAfterFork(); },
                 [] {
                   in_child = true;
                   current()->unlockAfterFork();
                   current()->beInert();
                 });
  std::atexit([] {
    if (!in_child) current()->shutdown();
  });
}

// A child may run a graph of its parent backward, and lets go of it: so nothing that this takes may
// be left with a thread that the child does not have. In the order in which they are taken.
void Session::lockForFork() {
  mutex_.lock();
  file_.lockForFork();
  observer_->lockForFork();
  droppedBlocks().lockForFork();
  host_memory_->lockForFork();
  if (trainsElsewhere()) memory_->lockForFork();
}

void Session::unlockAfterFork() {
  if (trainsElsewhere()) memory_->unlockAfterFork();
  host_memory_->unlockAfterFork();
  droppedBlocks().unlockAfterFork();
  observer_->unlockAfterFork();
  file_.unlockAfterFork();
  mutex_.unlock();
}

void Session::beInert() {
  host_memory_->setBudget(allocator::kUnlimited);
  host_memory_->setReclaimer(nullptr);
  host_memory_->setObserver(nullptr);
  host_memory_->recording().stop();
  host_memory_->planned().beginStep(allocator::Stream::kDefault, nullptr, false);
}

void Session::trainOn(allocator::DeviceMemory& memory, SpillTarget& spills, SetBudget set_budget) {
  const std::lock_guard lock(mutex_);  // another thread may fork now
  spills_ = &spills;
  set_budget_ = std::move(set_budget);
  if (&memory == memory_) return;
  memory_ = &memory;
  measures_only_ = stage_budget_ && !stage_budget_->size();
  metrics_.setBudgetBytes(budget().value_or(allocator::kUnlimited));
  observer_.emplace(memory);
  placement_.reset();
}

void Session::say(const std::string& text) const {
  if (config_.log_level == "info" || config_.log_level == "debug") {
    std::fprintf(stderr, "[ebbtide rank %d] %s\n", config_.rank, text.c_str());
  }
}

void Session::warn(const std::string& text) const {
  if (config_.log_level != "off" && config_.log_level != "error") {
    std::fprintf(stderr, "[ebbtide rank %d] warning: %s\n", config_.rank, text.c_str());
  }
}

void Session::debug(const std::string& text) const {
  if (config_.log_level == "debug")
    std::fprintf(stderr, "[ebbtide rank %d] debug: %s\n", config_.rank, text.c_str());
}

void Session::wake(int threads) {
  std::call_once(woken_, [this, threads] {
    threads_ = threads;
    openAuditCache(threads);
    std::string error;
    std::string endpoint;
    if (config_.port + config_.local_rank > 65535) {
      error =
          fmt::format("port {} + local rank {} is over 65535", config_.port, config_.local_rank);
    } else {
      const auto port = static_cast<std::uint16_t>(config_.port + config_.local_rank);
      server_ = metrics::HttpServer::start(
          {config_.bind, port}, [this] { return metrics_.render(); }, error);
    }
    if (server_)
      endpoint = fmt::format("metrics http://{}:{}/metrics", config_.bind, server_->port());
    say(fmt::format("{} (torch {}): {}, {}", kVersion, host_.torch_version,
                    budget() ? "budget " + formatBytes(*budget()) +
                                   (trainsElsewhere() ? " of the GPU" : "") +
                                   (stage_budget_ ? " until its stage is known" : "")
                    : stage_budget_ ? std::string("measuring until its stage is known")
                    : config_.gpu_budget.empty()
                        ? std::string("measuring, nothing is dropped")
                        : "budget of each GPU " + config_.gpu_budget + ", nothing is dropped",
                    server_ ? endpoint : "no metrics endpoint"));
    if (!server_) warn("metrics are not served: " + error);
    planner_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "ebbtide-plan");
      planLoop();
    });
    awake_ = true;
  });
}

// -----------------------------------------------------------------------------------------------
// steps

Session::StepStart Session::beginStep() {
  std::lock_guard lock(mutex_);
  takeBudget();
  StepStart start;
  auto known = programs_.find(last_signature_);
  if (known != programs_.end()) {  // programs that alternate follow each other
    const auto next = programs_.find(expectedProgram());
    if (next != programs_.end()) known = next;
    start.plan = planNow(known->second, steps_ + 1);
  }
  // The guess may be wrong, and the step one that has a plan: its first op tells.
  const bool any_plan = std::any_of(programs_.begin(), programs_.end(),
                                    [](const auto& entry) { return entry.second.plan != nullptr; });
  const bool observed = (steps_to_record_ > 0 || any_plan) && !keeps_everything_;
  start.record_ops = observed || pressed();
  start.hooks = start.record_ops || budget().has_value() || goesOn() || backwardCrossesHints();
  if (keeps_everything_) {
    start.plan = nullptr;
    start.record_ops = start.hooks = false;
  }
  memory_->resetPeaks();
  const allocator::Statistics memory = memory_->statistics();
  allocator_before_step_ = memory;
  step_base_bytes_ = memory.allocated_bytes;
  step_activation_bytes_ = 0;
  const bool free_to_observe = log_ == nullptr || log_->restsSince(kRest);
  if (observed && config_.own_allocator && free_to_observe) {
    start.log = std::make_shared<EventLog>(step_base_bytes_);
    log_ = start.log;
    observer_->passTo(log_);
    if (placement_) placement_->beginStep(start.plan);
  }
  spilled_before_step_ = spilled_bytes_;
  dropped_before_step_ = dropped_online_bytes_;
  replays_before_step_ = recomputed_ops_;
  offload_ns_before_step_ = offload_ns_;
  late_backwards_before_step_ = late_backwards_;
  step_start_ = std::chrono::steady_clock::now();
  return start;
}

bool Session::releaseLog(const std::shared_ptr<EventLog>& log) {
  std::lock_guard lock(mutex_);
  if (log_ != log) return false;
  observer_->passTo(nullptr);
  log_ = nullptr;
  return true;
}

std::shared_ptr<const Plan> Session::planFor(std::uint64_t first_op_signature) {
  std::lock_guard lock(mutex_);
  if (keeps_everything_) return nullptr;
  const std::uint64_t expected = expectedProgram();
  // A wrong plan is left where the step deviates; without one nothing can be dropped at all.
  const Program* found = nullptr;
  for (auto& [signature, known] : programs_) {
    if (known.first_op_signature != first_op_signature) continue;
    if (planNow(known, steps_ + 1) == nullptr) continue;
    if (signature == expected) return known.plan;
    if (found == nullptr || known.steps > found->steps) found = &known;
  }
  return found != nullptr ? found->plan : nullptr;
}

bool Session::wantsTrace(const StepSummary& summary) const {
  std::lock_guard lock(mutex_);
  if (steps_to_record_ > 0 || summary.off_plan || summary.plan == nullptr) return true;
  const auto known = programs_.find(summary.plan->signature);
  return known != programs_.end() && known->second.replan;
}

void Session::noteBackwardBegins() noexcept {
  const std::int64_t live = memory_->statistics().allocated_bytes;
  if (placement_) placement_->beginBackward();
  std::lock_guard lock(mutex_);
  step_activation_bytes_ = live - step_base_bytes_;
}

void Session::endStep(StepSummary summary) {
  finishStep(std::move(summary));
  stopOnceAdvised();
}

void Session::finishStep(StepSummary summary) {
  const allocator::Statistics memory = memory_->statistics();
  std::unique_lock lock(mutex_);
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, memory.allocated_peak_bytes);
  mapped_peak_bytes_ = std::max(mapped_peak_bytes_, memory.mapped_peak_bytes);
  if (summary.observed && placement_) {
    placement_->endStep(summary.had_backward && summary.trusted && !summary.off_plan);
    if (placement_->hasWork()) changed_.notify_all();
  }
  if (!summary.had_backward) return;
  slack_at_peak_bytes_ = memory.slack_at_peak_bytes;
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - step_start_).count();
  ++steps_;
  last_plan_ = summary.plan;
  if (last_plan_ && active_from_step_ < 0) active_from_step_ = steps_;
  step_seconds_.push_back(elapsed);
  if (steps_to_record_ > 0) --steps_to_record_;
  if (steps_ == 1) first_step_peak_bytes_ = memory.mapped_peak_bytes;
  judgeStep(summary, memory);
  refreshMetrics(memory);
  metrics_.addStep(elapsed);
  noteProgram(summary);
  learnStage(summary);
  if (!summary.recorded) return;
  std::vector<std::pair<double, std::int64_t>> timeline;
  std::int64_t live = summary.trace.base_bytes;
  timeline.emplace_back(0.0, live);
  for (const auto& event : summary.trace.events) {
    const int sign = event.kind == scheduler::TraceEvent::Kind::kAlloc  ? 1
                     : event.kind == scheduler::TraceEvent::Kind::kFree ? -1
                                                                        : 0;
    if (sign == 0) continue;
    live += sign * summary.trace.blocks[event.id].bytes;
    timeline.emplace_back(seconds(event.at_ns), live);
  }
  timeline_ = std::move(timeline);
  const bool wanted = wantsPlan(summary);
  const bool for_planning = wanted || !config_.trace_dir.empty();
  const bool first = steps_ == 1;
  const bool check_floor = checksFloor();
  const bool alone = summary.alone;
  const int budget_changes = budget_changes_;
  Program& known = programs_[summary.trace.signature];
  known.durations.merge(summary.trace);
  noteAuditKeys(known, summary.audit_keys);
  if (!summary.trace.ops.empty()) known.first_op_signature = summary.trace.ops[0].signature;
  forgetPrograms();
  lock.unlock();
  if (for_planning) summary.trace.host = hostCopies();
  if (!config_.trace_dir.empty()) writeTrace(summary.trace);
  if (check_floor || !budget()) analyse(summary.trace, first, check_floor, alone, budget_changes);
  if (wanted) requestPlan(std::move(summary.trace), first);
}

// Called with mutex_ held. Which program ran, and which one it followed.
void Session::noteProgram(const StepSummary& summary) {
  const bool as_planned = summary.plan && !summary.off_plan;
  if (!summary.recorded && !as_planned) return;
  const std::uint64_t ran = summary.recorded ? summary.trace.signature : summary.plan->signature;
  last_signature_ = ran;
  history_.push_back(ran);
  if (history_.size() > kHistory) history_.pop_front();
}

// What followed where most of the last steps had been the same as now; of several such places the
// newest.
std::uint64_t Session::expectedProgram() const {
  std::uint64_t expected = 0;
  std::ptrdiff_t most_alike = 0;
  for (auto next = history_.rbegin(); next != history_.rend(); ++next) {
    const auto before = std::next(next);
    const auto differ = std::mismatch(before, history_.rend(), history_.rbegin());
    const std::ptrdiff_t alike = differ.first - before;
    if (alike <= most_alike) continue;
    most_alike = alike;
    expected = *next;
  }
  return expected;
}

void Session::forgetPrograms() {
  if (programs_.size() <= kMostPrograms) return;
  auto least = programs_.end();
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    const bool in_use = it->first == last_signature_;
    if (!in_use && (least == programs_.end() || it->second.steps < least->second.steps)) least = it;
  }
  if (least != programs_.end()) programs_.erase(least);
}

const Session::Program* Session::mainProgram() const {
  const Program* main = nullptr;
  for (const auto& [signature, known] : programs_) {
    if (main == nullptr || known.steps > main->steps) main = &known;
  }
  return main;
}

// Called with mutex_ held.
bool Session::wantsPlan(const StepSummary& summary) {
  if (planning_ || keeps_everything_) return false;
  Program& known = programs_[summary.trace.signature];
  if (!budget()) {  // nothing to plan here, but the other ranks wait for its word
    const bool tells = summary.trace.group_size > 1 && steps_ >= 2 && !known.asked;
    if (tells) known.asked = planning_ = true;
    return tells;
  }
  const bool first_plan_is_old = known.from_first_step && steps_ >= 3;
  if (known.asked && !known.replan && !first_plan_is_old) return false;
  // Where shapes change with each step a plan is of use only for what comes back.
  if (programs_.size() > kPlannedAtOnce && known.steps < 2) return false;
  known.replan = false;
  known.asked = true;
  planning_ = true;  // by requestPlan(), which follows
  return true;
}

// Called with mutex_ held.
void Session::refreshMetrics(const allocator::Statistics& memory) {
  metrics_.setPeakBytes(allocated_peak_bytes_);
  metrics_.setAllocatedBytes(memory.allocated_bytes);
  metrics_.setMappedBytes(memory.mapped_bytes);
  metrics_.setPredictedPeakBytes(last_plan_ ? last_plan_->predicted_peak_bytes : 0);
}

void Session::shutdown() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closing_, true)) return;
  }
  changed_.notify_all();
  if (planner_.joinable()) planner_.join();
  if (rank_job_) job_traffic_ = rank_job_->traffic();
  rank_job_.reset();             // and with it the connection to the job's store
  if (audits_) audits_->save();  // what another writer kept it from
  if (awake_) {
    const allocator::Statistics memory = memory_->statistics();
    std::lock_guard lock(mutex_);
    allocated_peak_bytes_ = std::max(allocated_peak_bytes_, memory.allocated_peak_bytes);
    mapped_peak_bytes_ = std::max(mapped_peak_bytes_, memory.mapped_peak_bytes);
    violations_ = memory.budget_violations;
  }
  if (!awake_ && memory_->statistics().budget_violations > 0) {
    warn(
        "the budget was exceeded, and no training step was seen: nothing was dropped or spilled "
        "(only what autograd saves of operations outside torch.func can be)");
  }
  if (awake_ && !config_.report_path.empty()) writeReport();
  server_.reset();
}

}  // namespace ebbtide::plugin
