#include "runtime/planning/planning_service.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "held_search.hpp"

namespace ebbtide::plugin {
namespace {

class PlanningServiceTest : public testing::Test {
 protected:
  static RecordedStep step() { return {.trace = std::make_shared<const scheduler::Trace>()}; }
  static std::shared_ptr<const scheduler::Trace> gptStep() {
    std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/gpt_step.json");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return std::make_shared<const scheduler::Trace>(scheduler::traceFromJson(text));
  }

  SessionGuard guard_;
  PlanningService service_{{}, nullptr};
};

TEST_F(PlanningServiceTest, IsBusyUntilAStepIsPlanned) {
  const auto held = guard_.hold();
  EXPECT_FALSE(service_.isBusy(held));
  service_.ask(held, step());
  EXPECT_TRUE(service_.isBusy(held));
  EXPECT_TRUE(service_.take(held));
  EXPECT_TRUE(service_.isBusy(held));
  service_.endPlanning(held);
  EXPECT_FALSE(service_.isBusy(held));
  EXPECT_FALSE(service_.take(held));
}

// While it tells other ranks, who are not waited for.
TEST_F(PlanningServiceTest, MayBeAskedForAnotherMeanwhile) {
  const auto held = guard_.hold();
  service_.ask(held, step());
  service_.take(held);
  service_.noteTold(held);
  EXPECT_FALSE(service_.isBusy(held));
  service_.ask(held, step());
  service_.endPlanning(held);
  EXPECT_TRUE(service_.isBusy(held));
  EXPECT_TRUE(service_.take(held));
}

// Without a plan that is followed meanwhile a search goes on: what it finds is needed.
TEST_F(PlanningServiceTest, OnlyASearchForABetterPlanIsCut) {
  const auto held = guard_.hold();
  service_.cut(held);
  EXPECT_FALSE(service_.isCut());
  const auto plan = std::make_shared<const Plan>();
  service_.improve(held, plan);
  service_.cut(held);
  EXPECT_TRUE(service_.isCut());
  const PlanningService::Ended ended = service_.endSearch(held);
  EXPECT_EQ(ended.first, plan);
  EXPECT_TRUE(ended.cut);
  EXPECT_EQ(service_.improved(held), nullptr);
  EXPECT_FALSE(service_.isCut());
  EXPECT_FALSE(service_.endSearch(held).cut);
}

// It is searched for beside the planning thread, which plans other programs meanwhile.
TEST_F(PlanningServiceTest, IsNotBusyWhileABetterPlanIsSearchedFor) {
  const auto held = guard_.hold();
  service_.ask(held, step());
  service_.take(held);
  service_.improve(held, std::make_shared<const Plan>());
  service_.endPlanning(held);
  EXPECT_FALSE(service_.isBusy(held));
  EXPECT_NE(service_.improved(held), nullptr);
  service_.ask(held, step());
  service_.endSearch(held);
  EXPECT_TRUE(service_.isBusy(held));
  EXPECT_EQ(service_.improved(held), nullptr);
}

// The plan in force has failed, say: for a while it is. A search takes no time here.
TEST_F(PlanningServiceTest, ASearchThatIsNeededIsNotWaitedForForEver) {
  PlanningService hasty({.planning_time = std::chrono::milliseconds(0)}, nullptr);
  const auto held = guard_.hold();
  const auto late = [&](PlanningService& service) {
    return service.isLate(held, std::chrono::steady_clock::now());
  };
  hasty.need(held);  // there is none
  EXPECT_FALSE(late(hasty));
  hasty.improve(held, std::make_shared<const Plan>());
  EXPECT_FALSE(late(hasty));
  hasty.need(held);
  EXPECT_TRUE(late(hasty));
  hasty.cut(held);
  EXPECT_FALSE(late(hasty));
  hasty.need(held);
  hasty.endSearch(held);
  EXPECT_FALSE(late(hasty));
  PlanningService patient({.planning_time = std::chrono::hours(24)}, nullptr);
  patient.improve(held, std::make_shared<const Plan>());
  patient.need(held);
  EXPECT_FALSE(late(patient));
}

// Not of the one that is begun after it.
TEST_F(PlanningServiceTest, ACutIsOfOneSearchAlone) {
  const auto held = guard_.hold();
  service_.improve(held, std::make_shared<const Plan>());
  service_.cut(held);
  service_.endSearch(held);
  service_.improve(held, std::make_shared<const Plan>());
  EXPECT_FALSE(service_.isCut());
  EXPECT_FALSE(service_.endSearch(held).cut);
}

TEST_F(PlanningServiceTest, AtTheEndNobodyWaitsForAnySearch) {
  const auto held = guard_.hold();
  service_.end(held);
  EXPECT_TRUE(service_.isCut());
  service_.improve(held, std::make_shared<const Plan>());
  EXPECT_TRUE(service_.isCut());
  EXPECT_FALSE(service_.endSearch(held).cut);  // nothing is begun anew
}

TEST_F(PlanningServiceTest, IsWokenOnItsOwnThread) {
  bool on_thread = false, woken = false;
  service_.begin([&] {
    on_thread = PlanningService::onThread();
    auto held = guard_.hold();
    service_.await(held, std::chrono::steady_clock::now() + std::chrono::hours(1),
                   [] { return false; });
    woken = service_.take(held).has_value();
  });
  service_.ask(guard_.hold(), step());
  service_.join();  // which wakes it
  EXPECT_TRUE(on_thread);
  EXPECT_TRUE(woken);
  EXPECT_FALSE(PlanningService::onThread());
}

// It never asks whether anybody still waits for it: as one does that hardly runs.
class DeafSearch final : public scheduler::Planner {
 public:
  scheduler::PlannerInfo info() const override { return {"deaf", "this test", "none"}; }
  scheduler::PlanResult plan(const scheduler::Graph& graph, scheduler::Bytes budget_bytes,
                             const scheduler::PlannerOptions&) const override {
    goes_on_.wait(true);
    return test::HeldSearch::everything(graph, budget_bytes);
  }
  void letGo() {
    goes_on_ = false;
    goes_on_.notify_all();
  }

 private:
  std::atomic<bool> goes_on_{true};
};

// What the search uses goes with the service, which waits for it then.
TEST_F(PlanningServiceTest, ItsEndWaitsForNoSearchForABetterPlan) {
  DeafSearch search;
  PlanningService service({.in_its_place = &search}, nullptr);
  const auto trace = gptStep();
  service.begin([&] {
    service.improve(guard_.hold(), std::make_shared<const Plan>());
    service.polish(trace, scheduler::buildGraph(*trace), std::int64_t{1} << 60);
  });
  service.end(guard_.hold());
  service.join();
  EXPECT_FALSE(service.isPolished());
  search.letGo();
}

// Nothing else is due for an hour. The search holds this very trace until it ends.
TEST_F(PlanningServiceTest, SeesThatASearchForABetterPlanIsOver) {
  test::HeldSearch search;
  PlanningService service({.in_its_place = &search}, nullptr);
  const auto trace = gptStep();
  bool polished = false;
  Planned found;
  EXPECT_EQ(service.usedByPolishing().count(), 0);
  service.begin([&] {
    service.improve(guard_.hold(), std::make_shared<const Plan>());
    service.polish(trace, scheduler::buildGraph(*trace), std::int64_t{1} << 60);
    search.awaitBegun(1);
    EXPECT_GT(trace.use_count(), 1);
    search.letGo(test::HeldSearch::everything);
    {
      auto held = guard_.hold();
      service.await(held, std::chrono::steady_clock::now() + std::chrono::hours(1),
                    [] { return false; });
    }
    polished = service.isPolished();
    found = service.takePolished();
    service.endSearch(guard_.hold());
  });
  service.join();
  EXPECT_TRUE(polished);
  EXPECT_TRUE(found.result.feasible);
  EXPECT_GT(service.usedByPolishing().count(), 0);
}

}  // namespace
}  // namespace ebbtide::plugin
