#include "ebbtide/scheduler/joined_ranks.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/pipeline_simulator.hpp"
#include "ebbtide/scheduler/recorded_costs.hpp"
#include "model/trace_check.hpp"
#include "pipeline_jobs.hpp"
#include "recorded_rank.hpp"
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
    for (StagePoint& point : profile.points) {
      point.ahead_bytes = point.recompute_ns > 0 ? profile.points[0].backward_bytes : 0;
    }
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

// Two ranks, two microbatches: rank 0 F0 F1 B0 B1, rank 1 F0 B0 F1 B1. Messages 0 to 3 of each in
// that order.
struct TwoRanks {
  std::mt19937 random{1};
  PipelineJob job = [] {
    PipelineJob two = equalStages("1f1b", 2, 2);
    two.profiles[0].output_bytes = 8;
    return two;
  }();
  std::vector<RankActions> ranks = recognised(job, Scopes::kNothing, random);

  std::string problem() const {
    try {
      joinRanks(ranks, costsOf(job));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return {};
  }
};

TEST(JoinedRanks, NameTheRankAndActionThatDoNotFit) {
  struct Damage {
    std::function<void(std::vector<RankActions>&)> apply;
    const char* message;
  };
  const Damage damages[] = {
      {[](auto& ranks) { ranks[1].refusal = "it sends nothing"; }, "rank 1: it sends nothing"},
      {[](auto& ranks) { ranks[0].actions[0].sent[0].bytes = 7; },
       "rank 1, action 0 (F of forward 0): receives 8 bytes where rank 0, action 0 (F of forward "
       "0) sends 7"},
      {[](auto& ranks) { ranks[1].actions[2].received.clear(); },
       "rank 0, action 1 (F of forward 1): sends what rank 1 does not receive"},
      {[](auto& ranks) { ranks[1].actions[3].sent.clear(); },
       "rank 0, action 3 (B of forward 1): receives what rank 1 does not send"},
      {[](auto& ranks) { ranks[0].actions[0].sent[0].peer = 2; },
       "rank 0, action 0 (F of forward 0): has a message to or from rank 2"},
      // F0's output is asked for only behind B0.
      {[](auto& ranks) {
         std::swap(ranks[1].actions[0].received, ranks[1].actions[2].received);
         std::swap(ranks[1].actions[0].received[0].message,
                   ranks[1].actions[2].received[0].message);
         ranks[1].actions[2].received.insert(ranks[1].actions[2].received.begin(),
                                             ranks[1].actions[0].received[0]);
         ranks[1].actions[0].received.clear();
       },
       "rank 1, action 0 (F of forward 0): begins before it receives what rank 0, action 0 (F of "
       "forward 0) sends"},
      // The gradient of forward 0 is asked for only behind its backward.
      {[](auto& ranks) {
         auto& actions = ranks[0].actions;
         actions[3].received.insert(actions[3].received.begin(), actions[2].received[0]);
         actions[2].received.clear();
       },
       "rank 0, action 2 (B of forward 0): begins before it receives the gradient that rank 1, "
       "action 1 (B of forward 0) sends"},
      // No gradient for the second forward.
      {[](auto& ranks) {
         ranks[1].actions[3].sent.clear();
         ranks[0].actions[3].received.clear();
       },
       "rank 0, action 1 (F of forward 1): sends to rank 1, which sends back 1 gradients for 2 "
       "forwards"},
      {[](auto& ranks) {
         ranks[0].actions[1].sent.clear();
         ranks[1].actions[2].received.clear();
       },
       "rank 1, action 3 (B of forward 1): sends a gradient to rank 0, which sent it no forward"},
      {[](auto& ranks) {
         for (auto& rank : ranks) {
           for (RankAction& action : rank.actions) action.sent = action.received = {};
         }
       },
       "the ranks send each other nothing: they are no pipeline"},
      {[](auto& ranks) {
         ranks[1].chunks[1].part = 1;
         ranks[1].parts = 2;
       },
       "rank 1: not as many costs as it has stages"},
  };
  EXPECT_EQ(TwoRanks().problem(), "");
  for (const Damage& damage : damages) {
    TwoRanks two;
    damage.apply(two.ranks);
    EXPECT_EQ(two.problem(), damage.message);
  }
}

// Where names link, messages have to allow it. In turn: rank 1 has the microbatches the other way
// round, so that 1F1 comes first, and asks for rank 0's first message alone before it; rank 0 runs
// 0B1 before 0B0, and asks for the second gradient only then.
TEST(JoinedRanks, NamesThatMessagesDoNotAllowAreRefused) {
  TwoRanks named;
  named.ranks = recognised(named.job, Scopes::kActions, named.random);
  EXPECT_EQ(named.problem(), "");
  TwoRanks forwards = named;
  std::swap(forwards.ranks[1].chunks[0].microbatch, forwards.ranks[1].chunks[1].microbatch);
  EXPECT_EQ(forwards.problem(),
            "rank 1, action 0 (1F1): begins before it receives what rank 0, action 1 (0F1) sends");
  TwoRanks gradients = named;
  std::swap(gradients.ranks[0].actions[2].chunk, gradients.ranks[0].actions[3].chunk);
  EXPECT_EQ(gradients.problem(),
            "rank 0, action 2 (0B1): begins before it receives the gradient that rank 1, action 3 "
            "(1B1) sends");
}

TEST(JoinedRanks, StagesThatAreAlikeShareAProfile) {
  // Times of 20 ns are within 5 % of 21 ns, not of 22 ns. Stage 2 is the last one: it sends
  // nothing.
  std::mt19937 random(1);
  PipelineJob job = equalStages("1f1b", 3, 3);
  job.profiles.assign(3, job.profiles[0]);
  for (int stage = 0; stage < 3; ++stage) {
    job.stages[stage].profile = stage;
    job.profiles[stage].forward_ns = 20;
  }
  job.profiles[1].forward_ns = 21;
  const auto profilesOf = [&] {
    return joinRanks(recognised(job, Scopes::kNothing, random), costsOf(job)).job.profiles;
  };
  ASSERT_EQ(profilesOf().size(), 1U);
  EXPECT_EQ(profilesOf()[0].forward_ns, 20);  // (20 + 21 + 20) / 3
  job.profiles[1].forward_ns = 22;
  EXPECT_EQ(profilesOf().size(), 2U);
  job.profiles[1].forward_ns = 20;
  job.profiles[1].points[0].held_bytes = 99;
  EXPECT_EQ(profilesOf().size(), 2U);
}

std::vector<RankActions> recordedRanks(const std::string& name, int ranks) {
  std::vector<RankActions> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(recogniseActions(recordedRank(name, rank)));
    EXPECT_EQ(all.back().refusal, "");
  }
  return all;
}

PipelineJob joinedWithoutCosts(const std::vector<RankActions>& ranks) {
  std::vector<std::vector<PartCosts>> costs;
  for (const RankActions& rank : ranks) costs.emplace_back(rank.parts, PartCosts{{{}}, 0, 0});
  return joinRanks(ranks, costs).job;
}

// torch's Schedule1F1B, which names nothing.
TEST(JoinedRanks, OfFourProcessesRun1F1B) {
  const PipelineJob job = joinedWithoutCosts(recordedRanks("1f1b", 4));
  EXPECT_EQ(job.order, actionOrder("1f1b", {4, 1, 4}));
  for (int stage = 0; stage < 4; ++stage) EXPECT_EQ(job.stages[stage].rank, stage);
  EXPECT_EQ(job.profileOf(0).output_bytes, 1 << 20);
}

// torch's ScheduleInterleavedZeroBubble, with names; then without them. On the first stage an input
// gradient that computes nothing is there by name alone.
TEST(JoinedRanks, OfTwoProcessesRunAZeroBubbleSchedule) {
  const PipelineJob job = joinedWithoutCosts(recordedRanks("zero-bubble", 2));
  ASSERT_EQ(job.stages.size(), 4U);
  EXPECT_EQ(job.microbatches, 4);
  for (int stage = 0; stage < 4; ++stage) EXPECT_EQ(job.stages[stage].rank, stage % 2);
  const auto begin = actionsFromText("0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0");
  EXPECT_EQ(std::vector(job.order[0].begin(), job.order[0].begin() + 12), begin);
}

// Events lost, doubled or in another order, scopes and messages of others: refused or recognised,
// and where ranks still fit together the job is one that can be simulated or waits in a circle.
TEST(JoinedRanks, DamagedStepsAreRefusedOrRecognised) {
  using Event = TraceEvent::Kind;
  std::mt19937 random(5);
  int refused = 0, joined = 0;
  for (int run = 0; run < 1500; ++run) {
    const PipelineJob job = randomJob(random, 3, 4);
    if (job.ranks() < 2) continue;
    JobRecorder recorder(job, static_cast<Scopes>(random() % 4), random);
    std::vector<RankActions> ranks;
    std::vector<std::vector<PartCosts>> costs;
    bool whole = true;
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(job.ranks()); ++rank) {
      Trace trace = recorder.record(rank);
      for (auto damages = random() % 3; damages > 0; --damages) {
        const std::size_t at = random() % (trace.events.size() - 1);
        TraceEvent& event = trace.events[at];
        switch (random() % 5) {
          case 0:
            if (event.kind == Event::kMessage)
              trace.messages[event.id].receive = random() % 2 == 0;
            else
              trace.events.erase(trace.events.begin() + static_cast<std::ptrdiff_t>(at));
            break;
          case 1:
            std::swap(event, trace.events[at + 1]);
            break;
          case 2:
            trace.events.insert(trace.events.begin() + static_cast<std::ptrdiff_t>(at), event);
            break;
          case 3:
            if (event.kind == Event::kUnpack) {
              event.id = static_cast<std::int32_t>(random() % trace.use_value.size());
            }
            break;
          default:
            if (trace.scopes.empty()) break;
            trace.scopes[random() % trace.scopes.size()].name =
                trace.scopes[random() % trace.scopes.size()].name;
        }
      }
      try {
        checkTrace(trace);
      } catch (const std::invalid_argument&) {
        whole = false;
        break;
      }
      ranks.push_back(recogniseActions(trace));
      refused += ranks.back().refusal.empty() ? 0 : 1;
      try {
        costs.push_back(ranks.back().refusal.empty() ? costsOfParts(trace, ranks.back(), 100).parts
                                                     : std::vector<PartCosts>());
      } catch (const std::invalid_argument&) {  // not a graph's trace
        whole = false;
        break;
      }
    }
    if (!whole) continue;
    try {
      const PipelineJob found = joinRanks(ranks, costs).job;
      ++joined;
      simulate(found, uniformChoices(found, 0));
    } catch (const std::invalid_argument& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(joined, 50);
}

}  // namespace
}  // namespace ebbtide::scheduler
