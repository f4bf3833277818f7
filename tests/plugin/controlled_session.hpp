// A session without torch, whose steps are those of a recorded trace, and who asks it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>

#include "comes_true.hpp"
#include "control/session_control.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin::test {

using nlohmann::json;

constexpr std::int64_t kMib = 1 << 20;

struct Answered {
  int status = 0;
  json body;
};

class ControlledSession : public testing::Test {
 protected:
  ControlledSession() {
    std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/gpt_step.json");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    trace_ = scheduler::traceFromJson(text);
    trace_.signature = 1000;
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("ebbtide-" + std::to_string(::getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    config_.log_level = "off";
    // Searches end by work and not by time, so plans are the same on any machine. The work is what
    // a search simulates in a tenth of a second.
    config_.planning.planner = "greedy";
    config_.planning.work = 1'000'000;
    config_.planning.time = std::chrono::hours(24);
    config_.planning.offload = false;
    config_.local_rank = 1;  // no port
    config_.rank_told = config_.local_size_told = true;
    config_.job_id = "job";
    config_.server.socket_dir = folder_.string();
    const auto graph = scheduler::buildGraph(trace_);
    plain_bytes_ =
        scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes;
    saved_bytes_ = graph.activation_bytes;
  }
  ~ControlledSession() override {
    if (session_) session_->shutdown();
    std::filesystem::remove_all(folder_);
  }

  Session& begin(std::optional<std::int64_t> budget_bytes = std::nullopt) {
    config_.budget.bytes = budget_bytes;
    if (budget_bytes) config_.budget.text = std::to_string(*budget_bytes);
    session_ = std::make_unique<Session>(config_, "", &SessionControl::makeFor, searches_);
    session_->wake(1);
    return *session_;
  }

  std::shared_ptr<const Plan> step() { return step(trace_); }
  std::shared_ptr<const Plan> step(const scheduler::Trace& trace) {
    const StepStart start = session_->beginStep();
    end(start, /*recorded=*/true, &trace);
    return start.plan;
  }
  // A step on a trusted plan, to its end.
  void follow(const StepStart& start) {
    session_->course().releaseLog(start.log);
    StepSummary summary;
    summary.opened = start.opened;
    summary.had_backward = summary.recorded = summary.observed = summary.trusted = true;
    summary.plan = start.plan;
    summary.trace = trace_;
    session_->endStep(std::move(summary));
  }
  void end(const StepStart& start, bool recorded = true, const scheduler::Trace* trace = nullptr) {
    session_->course().releaseLog(start.log);
    StepSummary summary;
    summary.opened = start.opened;
    summary.had_backward = true;
    summary.recorded = summary.observed = recorded;
    summary.plan = start.plan;
    if (recorded) summary.trace = trace != nullptr ? *trace : trace_;
    session_->endStep(std::move(summary));
  }
  // Another program, whose blocks are a share as large: of shorter sequences, say.
  scheduler::Trace shorter(std::int64_t share) const {
    scheduler::Trace trace = trace_;
    trace.signature += static_cast<std::uint64_t>(share);
    for (auto& block : trace.blocks) block.bytes /= share;
    return trace;
  }
  static std::int64_t plainPeak(const scheduler::Trace& trace) {
    const auto graph = scheduler::buildGraph(trace).graph;
    return scheduler::simulate(graph, scheduler::keepEverything(graph)).peak_bytes;
  }
  // Larger than the budget: over it, and counted.
  void* allocateOver(std::int64_t budget) {
    return session_->trained().memory().allocate(static_cast<std::size_t>(2 * budget),
                                                 allocator::Stream::kDefault);
  }
  // The next allocation of a training thread fails,
  bool isRefused() const { return session_->budgets().verdict().refusal().requested(); }
  // by this error.
  std::string raiseRefusal() {
    return session_->budgets().verdict().refusal().raise(session_->guard().hold(), {});
  }

  std::future<Answered> ask(const std::string& method, const std::string& path,
                            const json& body = json::object(), bool may_change = true) {
    auto promise = std::make_shared<std::promise<Answered>>();
    auto answered = promise->get_future();
    session_->routes().answer(
        {.method = method, .path = path, .body = body.dump(), .may_change = may_change},
        [promise](const metrics::Response& response) {
          promise->set_value({response.status, json::parse(response.body)});
        });
    return answered;
  }
  // The curve when it is whole; `between` is done before each look but the first.
  json wholeCurve(const std::function<void()>& between) {
    json curve = get("/v1/curve").body;
    const bool whole = comesTrue([&] {
      if (curve["state"] != "computing") return true;
      between();
      curve = get("/v1/curve").body;
      return false;
    });
    EXPECT_TRUE(whole);
    return curve;
  }
  Answered get(const std::string& path) { return ask("GET", path).get(); }
  Answered post(const std::string& path, const json& body = json::object()) {
    return ask("POST", path, body).get();
  }

  Config config_;
  const scheduler::Planner* searches_ = nullptr;  // in place of the configuration's
  scheduler::Trace trace_;
  std::int64_t plain_bytes_ = 0, saved_bytes_ = 0;
  std::filesystem::path folder_;
  std::unique_ptr<Session> session_;
};

}  // namespace ebbtide::plugin::test
