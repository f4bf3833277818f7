#include "runtime/programs/program_table.hpp"

#include <algorithm>
#include <tuple>

namespace ebbtide::plugin {
namespace {

// As many steps: those of programs that take turns differ by one.
constexpr std::int64_t kAsOftenPercent = 75;

}  // namespace

std::shared_ptr<const Plan> ProgramTable::expectedPlan(std::int64_t step) {
  auto known = programs_.find(history_.last());
  if (known == programs_.end()) return nullptr;
  // Programs that alternate follow each other.
  const auto next = programs_.find(history_.expected());
  if (next != programs_.end()) known = next;
  return known->second.planAt(step);
}

std::shared_ptr<const Plan> ProgramTable::planFor(std::uint64_t first_op_signature,
                                                  std::int64_t step) {
  const std::uint64_t expected = history_.expected();
  // A wrong plan is left where the step deviates; without one nothing can be dropped at all.
  const Program* found = nullptr;
  for (auto& [signature, known] : programs_) {
    if (known.first_op_signature != first_op_signature) continue;
    if (known.planAt(step) == nullptr) continue;
    const bool better = found == nullptr || known.steps > found->steps;
    if (better || signature == expected) found = &known;
    if (signature == expected) break;
  }
  return found != nullptr ? found->in_force.plan : nullptr;
}

bool ProgramTable::anyPlan() const {
  return std::any_of(programs_.begin(), programs_.end(),
                     [](const auto& program) { return program.second.in_force.plan != nullptr; });
}

bool ProgramTable::anyWasPlanned() const {
  return std::any_of(programs_.begin(), programs_.end(),
                     [](const auto& program) { return program.second.planning.plans_made > 0; });
}

bool ProgramTable::dropPlans(const std::function<bool(const Plan&)>& does) {
  bool any = false;
  for (auto& [signature, known] : programs_) {
    const bool now = known.in_force.plan && does(*known.in_force.plan);
    if (!now && !(known.later.plan && does(*known.later.plan))) continue;
    if (now) known.dropPlan();
    known.later.plan = nullptr;
    known.askUncounted();
    any = true;
  }
  return any;
}

void ProgramTable::beginAnew(bool drop) {
  for (auto& [signature, known] : programs_) {
    known.later.plan = nullptr;
    if (drop) known.dropPlan();
  }
}

void ProgramTable::noteRecorded(scheduler::Trace& trace) {
  Program& known = programs_[trace.signature];
  known.durations.merge(trace);
  if (!trace.ops.empty()) known.first_op_signature = trace.ops[0].signature;
  forget();
}

void ProgramTable::forget() {
  if (programs_.size() <= kMost) return;
  const Program* const most = largest();
  auto least = programs_.end();
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    const bool told = &it->second == most && most->plain.peak_bytes > 0;  // of a run
    const bool in_use = told || it->first == history_.last();
    if (!in_use && (least == programs_.end() || it->second.steps < least->second.steps)) least = it;
  }
  if (least == programs_.end()) return;
  active_.forget(least->first);
  programs_.erase(least);
}

// 0: not known.
std::uint64_t ProgramTable::programIn(const StepSummary& summary) const {
  if (summary.recorded) return summary.trace.signature;
  return summary.plan && !summary.off_plan ? summary.plan->signature : 0;
}

std::uint64_t ProgramTable::noteStep(const StepSummary& summary) {
  const std::uint64_t program = programIn(summary);
  if (program != 0) history_.add(program);
  return program;
}

void ProgramTable::noteActive(const StepSummary& summary, std::int64_t step,
                              bool keeps_everything) {
  active_.noteStep(summary.plan, step);
  const std::uint64_t ran = programIn(summary);
  if (const Plan* const plan = summary.plan.get()) {
    // One that began with another program's plan tells of neither.
    if (ran == 0 || ran == plan->signature) active_.noteProgram(plan->signature, plan, step);
    return;
  }
  // Where a program has a plan, a step without it is no end of the plan's course: it had begun
  // before, or ran beside one that follows it.
  const auto known = programs_.find(ran);
  const bool has_plan =
      ran != 0 ? known != programs_.end() && known->second.in_force.plan : anyPlan();
  if (has_plan && !keeps_everything) return;
  active_.noteProgram(ran != 0 ? ran : main(), nullptr, step);
}

Program* ProgramTable::programOf(const StepSummary& summary) {
  if (summary.plan && !summary.off_plan) return &programs_[summary.plan->signature];
  return summary.recorded ? &programs_[summary.trace.signature] : nullptr;
}

const Program* ProgramTable::current() const {
  auto known = programs_.find(history_.last());
  if (known == programs_.end()) known = programs_.find(main());
  return known != programs_.end() ? &known->second : nullptr;
}

// A run may have a new program in each step. Most of these are never planned, and stay unknown.
ProgramTable::Programs::const_iterator ProgramTable::mostRun(const Planned& takes) const {
  std::tuple<bool, std::int64_t> most;
  const auto known = [](const Program& program) { return program.plain.peak_bytes > 0; };
  for (const auto& [signature, program] : programs_) {
    if (takes(signature)) most = std::max(most, std::tuple(known(program), program.steps));
  }
  const auto& [any_known, most_steps] = most;
  auto found = programs_.end();
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    const Program& program = it->second;
    const bool often = 100 * program.steps >= kAsOftenPercent * most_steps;
    if (!often || known(program) != any_known || !takes(it->first)) continue;
    if (found == programs_.end() || program.plain.peak_bytes > found->second.plain.peak_bytes)
      found = it;
  }
  return found;
}

std::uint64_t ProgramTable::main() const {
  const auto found = mostRun([](std::uint64_t) { return true; });
  return found != programs_.end() ? found->first : 0;
}

std::uint64_t ProgramTable::shown(const Planned& planned) const {
  const std::uint64_t most = main();
  if (planned(most)) return most;
  const auto found = mostRun(planned);
  return found != programs_.end() ? found->first : most;
}

const Program* ProgramTable::shown() const {
  const auto found = programs_.find(shown([this](std::uint64_t signature) {
    const auto known = programs_.find(signature);
    return known != programs_.end() && known->second.in_force.plan != nullptr;
  }));
  return found != programs_.end() ? &found->second : nullptr;
}

const Program* ProgramTable::largest() const {
  const auto largest =
      std::max_element(programs_.begin(), programs_.end(), [](const auto& a, const auto& b) {
        return a.second.plain.peak_bytes < b.second.plain.peak_bytes;
      });
  return largest != programs_.end() ? &largest->second : nullptr;
}

}  // namespace ebbtide::plugin
