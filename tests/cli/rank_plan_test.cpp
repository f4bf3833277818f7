// The plan of a running rank as the program prints it.
#include "live/rank_plan.hpp"

#include <gtest/gtest.h>

#include "checked_json.hpp"

namespace ebbtide::cli {
namespace {

std::string described(const std::string& document) {
  RankAnswer answer{.rank = 3, .where = {}, .status = 200, .document = {}, .problem = {}};
  answer.document = *parseChecked(document);
  return describePlan(answer);
}

// 3 MiB lie there at most, at the second moment: 1 of the base and 2 of the others. The 7 operators
// make 1 MiB and 512 bytes.
TEST(RankPlan, SaysWhatIsKeptAndWhatIsMadeAgain) {
  EXPECT_EQ(described(R"({
    "rank": 3,
    "plan": {"planner": "auto", "predicted_peak_bytes": 3145728, "overhead_ratio": 0.12,
             "recomputed_ops": 7, "offloaded_bytes": 2048, "active_from_step": 5,
             "plain_peak_bytes": 6291456, "decoded_values": 4, "offloaded_values": 2,
             "replays_ahead": 1, "plan_seconds": 0.25},
    "timeline": {"seconds": [], "live_bytes": [], "mapped_bytes": null, "budget_bytes": 4194304},
    "areas": [
      {"label": "base", "action": "base", "live_bytes": [1048576, 1048576, 1048576]},
      {"label": "aten::mm", "action": "kept", "live_bytes": [0, 524288, 0]},
      {"label": "other", "action": "kept", "live_bytes": [0, 524288, 1572864]},
      {"label": "aten::gelu", "action": "recomputed", "live_bytes": [1048576, 1048576, 0]}],
    "recomputed": [{"op": "aten::gelu", "ops": 5, "seconds": 0.0123, "freed_bytes": 1048576},
                   {"op": "aten::add", "ops": 2, "seconds": 0.0005, "freed_bytes": 512}]})"),
            "in force from step 5 on, planned by auto in 250.0 ms\n"
            "  predicted: peak 3.0 MiB (budget 4.0 MiB, 6.0 MiB without a plan), 12.0% more time\n"
            "  at the predicted peak: 1.0 MiB parameters and other base, 1.0 MiB kept "
            "activations, 1.0 MiB activations to recompute\n"
            "  each step: recomputes 7 operators (1.0 MiB), 1 before a message arrives, offloads "
            "2 values (2.0 KiB), decompresses 4 masks\n"
            "  recomputed  times   a step    frees\n"
            "  aten::gelu      5  12.3 ms  1.0 MiB\n"
            "  aten::add       2   500 us    512 B");
}

// One of three replays is in the list.
TEST(RankPlan, OfALongListOnlyTheDearestAreTold) {
  const std::string text = described(R"({"plan": {"recomputed_ops": 3}, "recomputed": [
    {"op": "aten::mm", "ops": 1, "seconds": 1, "freed_bytes": 2048}]})");
  EXPECT_NE(text.find("each step: recomputes 3 operators (at least 2.0 KiB)\n"), std::string::npos)
      << text;
}

TEST(RankPlan, SaysWhyThereIsNone) {
  EXPECT_EQ(described(R"({"plan": null, "timeline": null})"),
            "no plan yet: no step has been recorded");
  EXPECT_EQ(described(R"({"plan": null, "timeline": {"budget_bytes": null}})"),
            "no plan: no budget is in force");
  EXPECT_EQ(described(R"({"plan": null, "timeline": {"budget_bytes": 1048576}})"),
            "no plan: nothing has to be dropped within 1.0 MiB, or it is still being planned");
}

// A plan stays for when the rank goes on.
TEST(RankPlan, OfAPausedRankNoneIsInForce) {
  const auto begin = [](const std::string& members) {
    const std::string text = described("{\"plan\": {\"planner\": \"auto\", " + members + "}");
    return text.substr(0, text.find(','));
  };
  EXPECT_EQ(begin(R"("active_from_step": 5}, "mode": "budget")"), "in force from step 5 on");
  EXPECT_EQ(begin(R"("active_from_step": null}, "mode": "budget")"), "not in force yet");
  EXPECT_EQ(begin(R"("active_from_step": null})"), "not in force yet");
  EXPECT_EQ(begin(R"("active_from_step": null}, "mode": "paused")"), "not in force while paused");
  EXPECT_EQ(begin(R"("active_from_step": 5}, "mode": "paused")"), "not in force while paused");
  EXPECT_EQ(begin(R"("active_from_step": 5}, "mode": 7)"), "in force from step 5 on");
  EXPECT_EQ(described(R"({"plan": null, "timeline": {"budget_bytes": null}, "mode": "paused"})"),
            "no plan: the rank is paused and trains as PyTorch alone does");
}

// Nothing that a server sends is trusted: types, sizes of lists, escape sequences, sums.
TEST(RankPlan, OtherThanPromisedDoesNoHarm) {
  EXPECT_EQ(described(R"({"plan": [], "timeline": 7})"), "no plan yet: no step has been recorded");
  const std::string text = described(R"({
    "plan": {"planner": "\u001b[2Ja", "active_from_step": null, "predicted_peak_bytes": "much"},
    "areas": [{"action": "kept", "live_bytes": [9e18, "x", null]},
              {"action": "base", "live_bytes": [9e18]}, 7,
              {"action": "kept", "live_bytes": {}}, {"action": "\u001b", "live_bytes": [1]}],
    "recomputed": [7, {"op": "\n\u001b[2J", "ops": -1, "seconds": -1, "freed_bytes": null}]})");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.rfind("not in force yet, planned by ?[2Ja\n  predicted: peak - (budget none", 0),
            0U)
      << text;
  EXPECT_NE(text.find("at the predicted peak: 8.2e+06 TiB parameters and other base, 8.2e+06 TiB "
                      "kept activations\n"),
            std::string::npos)
      << text;  // 9e18 / 2^40
  EXPECT_NE(text.find("\n  ??[2J"), std::string::npos) << text;
}

}  // namespace
}  // namespace ebbtide::cli
