// Solutions of CheckmateModel: what they say, and those that schedules stand for.
#include <algorithm>

#include "planners/staged/checkmate_model.hpp"

namespace ebbtide::scheduler {

std::vector<RunKey> CheckmateModel::replays(const std::vector<double>& solution) const {
  std::vector<RunKey> replays;
  for (const auto& [run, column] : replay_columns_) {
    if (solution[static_cast<std::size_t>(column)] >= 0.5) replays.push_back(run);
  }
  return replays;
}

double CheckmateModel::retained(const std::vector<double>& solution, OpId stage,
                                ValueId value) const {
  const ValueColumns& columns = values_[value];
  const OpId index = stage - columns.first_stage;
  if (index < 0 || static_cast<std::size_t>(index) >= columns.retained.size()) return 0;
  return solution[static_cast<std::size_t>(columns.retained[static_cast<std::size_t>(index)])];
}

// Each copy from the run that makes it to the last one that reads it.
class CheckmateModel::Copies {
 public:
  Copies(const CheckmateModel& model, std::vector<double>& solution)
      : model_(model), solution_(solution), from_(model.values_.size()), to_(from_) {
    for (std::size_t id = 0; id < from_.size(); ++id) {
      if (model.graph_.values[id].producer == kNone) held(static_cast<ValueId>(id));
    }
  }

  // Runs come in order.
  void run(RunKey run) {
    const Op& op = model_.graph_.ops[run.op()];
    for (ValueId input : op.inputs) to_[input] = std::max(to_[input], run);
    for (ValueId output : op.outputs) {
      if (!run.first()) end(output);
      from_[output] = to_[output] = run;
      if (run.first()) held(output);
    }
  }

  // False: the model has no place for one of them.
  bool endAll() {
    for (std::size_t id = 0; id < from_.size(); ++id) end(static_cast<ValueId>(id));
    return fit_;
  }

 private:
  // The program holds the first copy at least so long.
  void held(ValueId value) {
    const OpId until = model_.runs_.heldUntil(value);
    if (until != kNone) to_[value] = std::max(to_[value], RunKey(until, until));
  }

  void end(ValueId value) {
    const ValueColumns& columns = model_.values_[value];
    const RunKey from = from_[value], to = to_[value];
    const bool unread_source = to.bits == 0;
    if (model_.graph_.values[value].pinned || unread_source) return;
    const OpId after = from.bits == 0 ? 0 : from.stage() + 1;
    const auto last = static_cast<std::size_t>(to.stage() - columns.first_stage) + 1;
    const auto drop =
        std::lower_bound(columns.drops.begin(), columns.drops.end(), to,
                         [](const Drop& one, RunKey place) { return one.place < place; });
    fit_ = fit_ && (after > to.stage() || last <= columns.retained.size()) &&
           drop != columns.drops.end() && drop->place == to;
    if (!fit_) return;
    solution_[static_cast<std::size_t>(drop->column)] = 1;
    for (OpId stage = after; stage <= to.stage(); ++stage) {
      const auto index = static_cast<std::size_t>(stage - columns.first_stage);
      solution_[static_cast<std::size_t>(columns.retained[index])] = 1;
    }
  }

  const CheckmateModel& model_;
  std::vector<double>& solution_;
  std::vector<RunKey> from_, to_;  // per value: of its copy at hand
  bool fit_ = true;
};

std::vector<double> CheckmateModel::solutionOf(const std::vector<RunKey>& replays) const {
  std::vector<RunKey> runs = replays;
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    runs.emplace_back(static_cast<OpId>(id), static_cast<OpId>(id));
  }
  std::sort(runs.begin(), runs.end());
  std::vector<double> solution(program_.columns(), 0);
  for (const auto& [run, column] : replay_columns_) {
    const bool there = std::binary_search(runs.begin(), runs.end(), run);
    solution[static_cast<std::size_t>(column)] = there ? 1 : 0;
  }
  Copies copies(*this, solution);
  for (const RunKey run : runs) copies.run(run);
  if (!copies.endAll()) return {};
  for (const auto& [column, row] : live_) {
    const double others = program_.rowActivity(row, solution);
    solution[static_cast<std::size_t>(column)] = program_.row_lower[row] - others;
  }
  if (peak_ != kNone) setPeak(solution);
  return solution;
}

// The least that meets all rows.
void CheckmateModel::setPeak(std::vector<double>& solution) const {
  double peak = 0;
  for (std::size_t row = 0; row < program_.rows(); ++row) {
    if (program_.row_lower[row] != -LinearProgram::kInfinity) continue;
    peak = std::max(peak, program_.rowActivity(row, solution) - program_.row_upper[row]);
  }
  solution[static_cast<std::size_t>(peak_)] = peak;
}

}  // namespace ebbtide::scheduler
