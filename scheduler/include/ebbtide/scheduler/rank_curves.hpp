// What a rank of a pipeline tells of itself, and what it makes of the answer: the curves of its
// stages' microbatches, and its step's schedule once a point has been chosen for each.
#pragma once

#include <memory>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/joined_ranks.hpp"
#include "ebbtide/scheduler/microbatch_curve.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"

namespace ebbtide::scheduler {

// Of each chunk of the rank its ops in the step's graph. Precondition: the actions are this trace's
// graph's, and were not refused.
std::vector<MicrobatchOps> microbatchOps(const TraceGraph& step, const RankActions& actions);

// Forwards without their backwards, at most, at any moment of the step.
std::int32_t mostInFlight(const RankActions& actions);

class RankCurves {
 public:
  // Throws std::invalid_argument where chunks of one part (RankChunk) are not alike.
  RankCurves(const TraceGraph& step, const RankActions& actions);

  // Of each part; `cap_bytes` is what the rank may hold at most, the deadline is for all of them.
  void trace(Bytes cap_bytes, const CurveOptions& options);

  std::size_t parts() const { return curves_.size(); }
  const std::vector<MicrobatchPoint>& curve(std::size_t part) const { return curves_[part]; }
  // That no choice of points changes, at the most of the microbatches' ops.
  Bytes fixedBytes() const { return fixed_bytes_; }
  Bytes weightHeldBytes(std::size_t part) const;  // at the most of its points

  // Are the chunks of this step, of the same actions, those that the curves are of?
  bool fit(const RankCurves& other) const;
  // The schedule of the step that `microbatches` are of, with these points of its chunks.
  Schedule compose(const Graph& step, const RankCurves& of_step,
                   const std::vector<std::int32_t>& points) const;

 private:
  std::int32_t in_flight_ = 1;
  Bytes fixed_bytes_ = 0;
  std::vector<std::int32_t> part_of_chunk_;
  std::vector<Microbatch> chunks_;
  std::vector<Microbatch> joint_;  // of each part
  std::vector<std::vector<MicrobatchPoint>> curves_;
};

}  // namespace ebbtide::scheduler
