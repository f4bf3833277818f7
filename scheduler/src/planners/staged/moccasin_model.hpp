// MoccasinModel: moccasin2023's constraint program (section 2) for CP-SAT.
//
//   value x:   run 1 ===== end 1            run 2 === end 2       copies: one a run of its producer
//   reader:          o          o                  o              each within some copy of x
//
// Time is counted in events; at most one op runs at each. With the input order (section
// 2.3) stage k ends with the first run of op k, and its event v can only replay op v; so first runs
// are fixed and no two events meet. With the free order (section 2.1) there are as many events as
// runs. Beyond the paper: ops with several outputs or none, and the bytes of a recorded program;
// where it takes a value's bytes over in place a replay is counted with both, so that peaks are at
// most those of the model.
#pragma once

#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "search/replay_timeline.hpp"
#include "solver/cp_sat_model.hpp"

namespace ebbtide::scheduler {

struct MoccasinSettings {
  bool free_order = false;  // needs a graph of any order
  bool reservoir = false;   // reads as reservoirs (section 2.2); else as clauses over copies
  int intervals = 2;        // C: runs of an op, the first one included
};

// Phase 1 (section 2.4) seeks a peak under most_bytes, least_bytes if that is possible; phase 2,
// where the two are equal, little time. Replays take at most most_replay_ns in both.
struct MoccasinGoal {
  Bytes least_bytes = 0, most_bytes = 0;
  Nanoseconds most_replay_ns = 0;
};

class MoccasinModel {
 public:
  // The graph must outlive the model.
  MoccasinModel(const Graph& graph, const MoccasinSettings& settings, const MoccasinGoal& goal);

  // Begins the search there. False where the schedule is none of the model's.
  bool hint(const Schedule& schedule);
  const std::string& wire() const { return model_.wire(); }
  std::size_t variables() const { return model_.variables(); }
  // Of a solution. Legal; its copies end with their last reads.
  Schedule schedule(const std::vector<std::int64_t>& solution) const;

 private:
  struct Run {
    CpExpression start;
    CpLiteral active;
  };
  struct Copy {  // of a value, made by the run of the same index
    CpVariable end;
    std::optional<CpVariable> size;
  };
  struct Times {  // where a schedule has them: events, per op or value and index
    std::vector<std::vector<std::int64_t>> starts, ends;
    std::set<std::tuple<ValueId, std::size_t, OpId, std::size_t>> serves;
  };
  struct Serve {  // does this copy serve that run?
    CpLiteral literal;
    ValueId value;
    std::size_t copy;
    OpId op;
    std::size_t run;
  };

  std::int64_t eventOf(OpId stage, OpId op) const;
  std::int64_t lastEvent() const;
  bool managed(ValueId value) const { return !graph_.values[value].pinned; }
  bool needsCopy(OpId op, std::size_t run, ValueId input) const;
  void addRuns(OpId op);
  void orderRuns(OpId op);
  void addCopies(ValueId value);
  void addCopy(ValueId value, std::size_t run);
  bool takesOver(ValueId value) const;
  void addClauses(ValueId value, OpId reader, std::size_t run);
  void serve(const Serve& served, CpLiteral literal);
  void addReservoir(ValueId value);
  void addFixedBytes();
  void addAtMost(const CpExpression& less, const CpExpression& more, std::int64_t gap,
                 const std::vector<CpLiteral>& enforced);
  void demand(CpInterval interval, Bytes bytes);
  void setGoal(const MoccasinGoal& goal);
  std::optional<Times> timesOf(const Schedule& schedule) const;
  bool addTimes(OpId op, std::int64_t event, Times& times) const;

  const Graph& graph_;
  MoccasinSettings settings_;
  ReplayTimeline limits_;
  CpSatModel model_;
  CpLiteral always_;
  std::vector<std::vector<Run>> runs_;     // per op
  std::vector<std::vector<Copy>> copies_;  // per value; empty where it is pinned
  std::vector<std::vector<OpId>> readers_;
  std::vector<Serve> serves_;
  std::vector<CpInterval> intervals_;
  std::vector<std::int64_t> demands_;
  std::optional<CpVariable> peak_;
};

}  // namespace ebbtide::scheduler
