#include "runtime/program_table.hpp"

#include <algorithm>
#include <tuple>

namespace ebbtide::plugin {

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
  return found != nullptr ? found->plan : nullptr;
}

bool ProgramTable::anyPlan() const {
  return std::any_of(programs_.begin(), programs_.end(),
                     [](const auto& program) { return program.second.plan != nullptr; });
}

bool ProgramTable::anyWasPlanned() const {
  return std::any_of(programs_.begin(), programs_.end(),
                     [](const auto& program) { return program.second.plans_made > 0; });
}

bool ProgramTable::dropPlans(const std::function<bool(const Plan&)>& does) {
  bool any = false;
  for (auto& [signature, known] : programs_) {
    const bool now = known.plan && does(*known.plan);
    if (!now && !(known.later.plan && does(*known.later.plan))) continue;
    if (now) known.dropPlan();
    known.later.plan = nullptr;
    known.replan = any = true;
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
  auto least = programs_.end();
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    const bool in_use = it->first == history_.last();
    if (!in_use && (least == programs_.end() || it->second.steps < least->second.steps)) least = it;
  }
  if (least != programs_.end()) programs_.erase(least);
}

std::uint64_t ProgramTable::noteStep(const StepSummary& summary) {
  const bool as_planned = summary.plan && !summary.off_plan;
  if (!summary.recorded && !as_planned) return 0;
  const std::uint64_t program =
      summary.recorded ? summary.trace.signature : summary.plan->signature;
  history_.add(program);
  return program;
}

Program* ProgramTable::programOf(const StepSummary& summary) {
  if (summary.plan && !summary.off_plan) return &programs_[summary.plan->signature];
  return summary.recorded ? &programs_[summary.trace.signature] : nullptr;
}

const Program* ProgramTable::current() const {
  const auto known = programs_.find(history_.last());
  return known != programs_.end() ? &known->second : main();
}

const Program* ProgramTable::main() const {
  // Where each step is a program of its own most are not planned for, and nothing is known of them.
  const auto rank = [](const Program& program) {
    return std::tuple(program.plain_peak_bytes > 0, program.steps, program.plain_peak_bytes);
  };
  const Program* main = nullptr;
  for (const auto& [signature, known] : programs_) {
    if (main == nullptr || rank(known) > rank(*main)) main = &known;
  }
  return main;
}

const Program* ProgramTable::largest() const {
  const auto largest =
      std::max_element(programs_.begin(), programs_.end(), [](const auto& a, const auto& b) {
        return a.second.plain_peak_bytes < b.second.plain_peak_bytes;
      });
  return largest != programs_.end() ? &largest->second : nullptr;
}

}  // namespace ebbtide::plugin
