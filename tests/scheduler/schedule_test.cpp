#include "ebbtide/scheduler/schedule.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

TEST(ScheduleJson, HasOneForm) {
  const Schedule schedule{{run(0), offload(1), fetch(1), drop(1)}};
  EXPECT_EQ(toJson(schedule), R"({"format":"ebbtide-schedule-1","steps":)"
                              R"([["run",0],["offload",1],["fetch",1],["drop",1]]})");
}

TEST(ScheduleJson, ComesBackAsItWas) {
  const Schedule schedule{{run(0), drop(3), run(1), offload(2147483647), fetch(0)}};
  EXPECT_EQ(scheduleFromJson(toJson(schedule)).steps, schedule.steps);
  EXPECT_TRUE(scheduleFromJson(toJson({})).steps.empty());
}

TEST(ScheduleJson, RejectsWhatItDoesNotKnow) {
  const std::string good = R"({"format":"ebbtide-schedule-1","steps":[["run",0]]})";
  EXPECT_NO_THROW(scheduleFromJson(good));
  const auto with = [](const std::string& steps) {
    return R"({"format":"ebbtide-schedule-1","steps":)" + steps + "}";
  };
  for (const std::string& bad :
       {std::string(),
        std::string("["),
        std::string("[]"),
        std::string("null"),
        std::string("{}"),
        good + "x",
        std::string(R"({"format":"ebbtide-schedule-2","steps":[]})"),
        std::string(R"({"format":"ebbtide-schedule-1"})"),
        std::string(R"({"steps":[]})"),
        std::string(R"({"format":"ebbtide-schedule-1","steps":[],"more":1})"),
        with("{}"),
        with("[[]]"),
        with(R"([["run"]])"),
        with(R"([["run",0,0]])"),
        with(R"([["jump",0]])"),
        with(R"([["run",-1]])"),
        with(R"([["run",1.5]])"),
        with(R"([["run","0"]])"),
        with(R"([["run",2147483648]])"),
        with(R"([["run",18446744073709551615]])"),
        with(R"([["run",99999999999999999999]])"),
        with(R"([[0,"run"]])"),
        with(R"(["run",0])")}) {
    EXPECT_THROW(scheduleFromJson(bad), std::invalid_argument) << bad;
  }
}

TEST(ScheduleJson, SaysWhere) {
  try {
    scheduleFromJson(R"({"format":"ebbtide-schedule-1","steps":[["run",0],["jump",0]]})");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "schedule: step 1: unknown kind 'jump'");
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
