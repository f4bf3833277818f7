#include "ebbtide/scheduler/joined_ranks.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "pipeline_jobs.hpp"
#include "recorded_ranks.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;

// What a rank without scopes can know of a job: an input and a weight gradient with nothing in
// between are one backward pass.
void mergeParts(PipelineJob& job) {
  for (auto& order : job.order) {
    std::vector<PipelineAction> merged;
    for (const PipelineAction& action : order) {
      if (action.kind == Kind::kWeightBackward && !merged.empty() &&
          job.stages[action.stage].previous == kNone &&
          merged.back() == PipelineAction{Kind::kInputBackward, action.stage, action.microbatch}) {
        merged.back().kind = Kind::kBackward;
      } else {
        merged.push_back(action);
      }
    }
    order = merged;
  }
}

// As joinRanks() gives times and bytes that a job leaves open.
void normalise(PipelineJob& job) {
  std::vector<bool> whole(job.stages.size(), false);
  for (const auto& order : job.order) {
    for (const PipelineAction& action : order) {
      if (action.kind == Kind::kBackward) whole[action.stage] = true;
    }
  }
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(job.ranks()); ++rank) {
    Nanoseconds tail = 0;
    std::vector<StageProfile*> own;
    for (const Stage& stage : job.stages) {
      if (stage.rank != rank) continue;
      own.push_back(&job.profiles[stage.profile]);
      tail += own.back()->tail_ns;
    }
    const auto count = static_cast<Nanoseconds>(own.size());
    for (Nanoseconds i = 0; i < count; ++i) own[i]->tail_ns = tail / count + (i < tail % count);
  }
  for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
    StageProfile& profile = job.profiles[job.stages[stage].profile];
    if (job.stages[stage].next == kNone) profile.output_bytes = 0;
    if (!whole[stage]) continue;
    const Nanoseconds both = profile.input_backward_ns + profile.weight_backward_ns;
    profile.input_backward_ns = both / 2;
    profile.weight_backward_ns = both - both / 2;
  }
}

std::vector<std::vector<PartCosts>> costsOf(const PipelineJob& job) {
  std::vector<std::vector<PartCosts>> costs(job.ranks());
  for (const Stage& stage : job.stages) {
    const StageProfile& profile = job.profiles[stage.profile];
    costs[stage.rank].push_back({profile.points, profile.fixed_bytes, profile.weight_held_bytes});
  }
  return costs;
}

void expectSame(const PipelineJob& found, const PipelineJob& job) {
  ASSERT_EQ(found.stages.size(), job.stages.size());
  EXPECT_EQ(found.microbatches, job.microbatches);
  EXPECT_EQ(found.order, job.order);
  for (std::size_t i = 0; i < job.stages.size(); ++i) {
    EXPECT_EQ(found.stages[i].rank, job.stages[i].rank) << i;
    EXPECT_EQ(found.stages[i].previous, job.stages[i].previous) << i;
    EXPECT_EQ(found.stages[i].next, job.stages[i].next) << i;
    const StageProfile& a = found.profiles[found.stages[i].profile];
    const StageProfile& b = job.profiles[job.stages[i].profile];
    EXPECT_EQ(a.forward_ns, b.forward_ns) << i;
    EXPECT_EQ(a.input_backward_ns, b.input_backward_ns) << i;
    EXPECT_EQ(a.weight_backward_ns, b.weight_backward_ns) << i;
    EXPECT_EQ(a.tail_ns, b.tail_ns) << i;
    EXPECT_EQ(a.fixed_bytes, b.fixed_bytes) << i;
    EXPECT_EQ(a.output_bytes, b.output_bytes) << i;
    EXPECT_EQ(a.weight_held_bytes, b.weight_held_bytes) << i;
    EXPECT_EQ(a.points, b.points) << i;
  }
}

std::vector<RankActions> recognised(const PipelineJob& job, Scopes scopes, std::mt19937& random) {
  std::vector<RankActions> ranks;
  JobRecorder recorder(job, scopes, random);
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(job.ranks()); ++rank) {
    const Trace trace = recorder.record(rank);
    buildGraph(trace);  // throws where the trace is none
    ranks.push_back(recogniseActions(trace));
    EXPECT_EQ(ranks.back().refusal, "") << "rank " << rank;
  }
  return ranks;
}

class JoinedRanksOf : public testing::TestWithParam<Scopes> {};

TEST_P(JoinedRanksOf, GiveBackTheJob) {
  std::mt19937 random(7);
  for (int run = 0; run < 400; ++run) {
    PipelineJob job = randomJob(random, 6, 9);
    const std::string text = toText(job.order[0].back());
    if (job.ranks() < 2) continue;
    const bool one_stage = job.stages.size() == job.ranks();
    const bool whole = text.find('W') == std::string::npos;
    // Microbatches alone do not tell stages of a rank apart, nor do they name halves.
    if (GetParam() == Scopes::kMicrobatches && (!one_stage || !whole)) continue;
    SCOPED_TRACE("run " + std::to_string(run) + ", " + std::to_string(job.ranks()) + " ranks");
    const std::vector<RankActions> ranks = recognised(job, GetParam(), random);
    if (GetParam() == Scopes::kNothing || GetParam() == Scopes::kHints) mergeParts(job);
    normalise(job);
    const JoinedRanks joined = joinRanks(ranks, costsOf(job));
    expectSame(joined.job, job);
    for (std::size_t i = 0; i < job.stages.size(); ++i) {
      EXPECT_EQ(joined.part_of_stage[i], static_cast<std::int32_t>(i / job.ranks()));
    }
    if (testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(With, JoinedRanksOf,
                         testing::Values(Scopes::kNothing, Scopes::kMicrobatches, Scopes::kActions,
                                         Scopes::kHints));

}  // namespace
}  // namespace ebbtide::scheduler
