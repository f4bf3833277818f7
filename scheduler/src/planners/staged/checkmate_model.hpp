// CheckmateModel: Checkmate's mixed-integer program (Jain et al. 2020, section 4; a
// baseline in moccasin2023) over schedules in stages (StagedRuns).
//
//   R(t,k)    op k is run in stage t; R(t,t) = 1
//   S(t,v)    value v is retained from stage t-1 into stage t
//   F(t,v,k)  FREE: its copy is dropped in stage t after op k's place
//   U(t,k)    live bytes while op k runs in stage t
//
// In place of the paper's products for FREE, which it linearises, copies are conserved as a flow:
//
//   S(t,v) + R(t,p) - F(t,v,·) = S(t+1,v)          p makes v
//   S(t,v) + R(t,p) - F(t,v,places before k) ≥ R(t,k)   for each k that reads v
//
// It says the same of whole numbers, its relaxation is tighter, and once R is whole so is the rest,
// so only R is declared integer. Besides the paper's model it knows fixed bytes, natural lives,
// workspaces, in-place outputs and lazy outputs: a schedule in stages solves it exactly if it meets
// the budget. First runs come in program order even where a graph allows any.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "planners/staged/staged_runs.hpp"
#include "search/replay_timeline.hpp"
#include "solver/linear_program.hpp"

namespace ebbtide::scheduler {

class CheckmateModel {
 public:
  enum class Goal {
    kTime,  // of replays, within the budget
    kPeak,  // whatever the time
  };
  using Column = LinearProgram::Column;

  // The graph and its runs must outlive the model. `whole`: R is integer.
  CheckmateModel(const Graph& graph, const StagedRuns& runs, Bytes budget_bytes, Goal goal,
                 bool whole);

  const LinearProgram& program() const { return program_; }

  // Columns and terms of rows that a model of this graph would have, or a little more.
  static std::size_t size(const Graph& graph, const StagedRuns& runs);

  std::vector<RunKey> replays(const std::vector<double>& solution) const;  // R at least 1/2
  // S(t,v), 0 where the value cannot matter in that stage.
  double retained(const std::vector<double>& solution, OpId stage, ValueId value) const;
  // The solution that a schedule of these replays stands for; it need not meet the budget. Empty
  // where a replay makes nothing that is read.
  std::vector<double> solutionOf(const std::vector<RunKey>& replays) const;

 private:
  struct Drop {  // F(t,v,k)
    RunKey place;
    Column column;
  };
  struct ValueColumns {
    OpId first_stage = 0;
    std::vector<Column> retained;  // S from first_stage on
    std::vector<Drop> drops;       // in order
  };
  struct Stage {  // while it is built
    OpId id = 0;
    std::vector<Column> run;  // per op: R, kOne of its first run, kNone where it may not
    std::vector<std::vector<LinearProgram::Term>> early, late;  // per op: what its place frees
  };
  static constexpr Column kOne = -2;
  class Copies;  // of a schedule, as a solution

  void setUnits(Bytes budget_bytes);
  void addStage(OpId stage);
  void addRuns(Stage& stage);
  void addValue(Stage& stage, ValueId value);
  void addDrops(Stage& stage, ValueId value, std::vector<LinearProgram::Term>& flow, double made);
  bool freesEarly(ValueId value, RunKey place) const;
  void addLeaving(const Stage& stage, ValueId value, std::vector<LinearProgram::Term> flow,
                  double made);
  void addMemory(const Stage& stage);
  void addLimit(RunKey run, Column live, Column runs);
  std::vector<OpId> places(const Stage& stage, ValueId value) const;
  void setPeak(std::vector<double>& solution) const;
  double units(Bytes bytes) const { return static_cast<double>(bytes) / bytes_; }

  const Graph& graph_;
  const StagedRuns& runs_;
  Goal goal_;
  bool whole_;
  double bytes_ = 1, nanoseconds_ = 1;  // per unit of the program
  double budget_ = 0;                   // in units
  LinearProgram program_;
  Column peak_ = kNone;  // of Goal::kPeak
  std::vector<ValueColumns> values_;
  std::vector<std::pair<RunKey, Column>> replay_columns_;
  std::vector<std::pair<Column, std::size_t>> live_;  // U and the row that defines it, in order
  std::vector<LinearProgram::Term> pending_;          // of the next U: the last one, what was freed
};

}  // namespace ebbtide::scheduler
