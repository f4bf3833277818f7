// The frame of `ebbtide top`, and what keys do to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "live/top_frame.hpp"
#include "live/top_model.hpp"
#include "live/trend_line.hpp"

namespace ebbtide::cli {
namespace {

using Kind = TopKey::Kind;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TopKey letter(char value) {
  return {.kind = Kind::kLetter, .letter = value};
}
TopKey key(Kind kind) {
  return {.kind = kind, .letter = 0};
}

// Rank r: live 2 GiB, peak 4 GiB of 8 GiB, a step of 0.1 s * (r + 1).
RankRow rankOf(int rank) {
  RankRow status;
  status.rank = rank;
  status.state = "training";
  status.host = "node";
  status.steps.count = 12;
  status.steps.median_seconds = 0.1 * (rank + 1);
  status.memory.budget_bytes = 8 * kGiB;
  status.memory.live_bytes = 2 * kGiB;
  status.memory.peak_bytes = 4 * kGiB;
  status.recompute_ratio = 0.042;
  status.violations = 0;
  status.history.step_seconds = {0.1, 0.2, 0.1};
  return status;
}

TopModel modelOf(int ranks) {
  TopModel model;
  model.title = "job j";
  std::vector<RankRow> rows;
  for (int rank = 0; rank < ranks; ++rank) rows.push_back(rankOf(rank));
  model.setRanks(std::move(rows));
  return model;
}

std::string textOf(const std::vector<FrameLine>& lines) {
  std::string text;
  for (const FrameLine& line : lines) text += line.text() + "\n";
  return text;
}

TEST(TopFrame, ShowsARankInEightyColumns) {
  const auto lines = topFrame(modelOf(2), {.columns = 80, .lines = 24}, false);
  ASSERT_EQ(lines.size(), 24U);
  EXPECT_EQ(lines[0].text(), "ebbtide top  job j  2 ranks, 2 training");
  EXPECT_EQ(lines[1].text(), "peaks 8.00 GiB of budgets 16.00 GiB; slowest 200.0 ms (rank 1)");
  // 80 - 5 - 1 - 8 (rank, state) - 18 - 7 - 9 (memory, share, step) leaves 32: 11 for the least
  // bar, 7 for the least trend and 14 to share. The bar is 17: 2 of 8 GiB are 4 cells, the peak's 4
  // GiB end at 9 (8.5, rounded).
  EXPECT_EQ(lines[3].text(),
            "    0 training ####=====........   4.00 / 8.00 GiB   4.2% 100.0 ms           _#_");
  EXPECT_TRUE(lines[3].selected);
  EXPECT_NE(lines[21].text().find("rank 0 on node, step 12; live 2.00 GiB"), std::string::npos);
}

TEST(TopFrame, WhatIsOverTheBudgetIsMarked) {
  TopModel model;
  RankRow status = rankOf(0);
  status.memory.peak_bytes = 16 * kGiB;  // the scale: a budget of 8 GiB is its half
  status.violations = 3;
  model.setRanks({status});
  const auto lines = topFrame(model, {.columns = 80, .lines = 24}, false);
  // 17 cells: live 2 (2.1), up to the budget 9 (8.5), the rest over it.
  EXPECT_NE(lines[3].text().find(" ##=======!!!!!!!! "), std::string::npos) << lines[3].text();
  EXPECT_NE(lines[1].text().find("1 went over; "), std::string::npos);
}

// The budget of 8 GiB bounds the peak of 4 GiB and what others hold of the GPU, 2 GiB.
TEST(TopFrame, WhatOthersHoldCountsInTheBudget) {
  TopModel model;
  RankRow status = rankOf(0);
  status.memory.margin_bytes = 2 * kGiB;
  RankRow without = status;
  without.rank = 1;
  without.memory.budget_bytes.reset();
  model.setRanks({status, without});
  auto lines = topFrame(model, {.columns = 80, .lines = 24}, false);
  EXPECT_EQ(
      lines[1].text().find("peaks 6.00 GiB of budgets 8.00 GiB; 1 without a budget: 4.00 GiB; "),
      0U);
  // 17 cells: live 4, the peak up to 9 (8.5), the others up to 13 (12.75).
  EXPECT_NE(lines[3].text().find(" ####=====----....   6.00 / 8.00 GiB "), std::string::npos)
      << lines[3].text();
  EXPECT_NE(lines[4].text().find(" 4.00 GiB / none "), std::string::npos) << lines[4].text();
  EXPECT_NE(lines[21].text().find("live 2.00 GiB, others 2.00 GiB"), std::string::npos);
  // 5 of 8 GiB are less than 6 of 8.
  RankRow other = rankOf(2);
  other.memory.peak_bytes = 5 * kGiB;
  model.setRanks({other, status});
  model.press(letter('s'), 10);  // by memory
  EXPECT_EQ(model.rows().front().rank, 0);
  status.memory.margin_bytes = 12 * kGiB;  // the scale: 16 GiB; the budget is half, 9 cells
  model.setRanks({status});
  lines = topFrame(model, {.columns = 80, .lines = 24}, false);
  EXPECT_NE(lines[3].text().find(" ##==-----!!!!!!!! "), std::string::npos) << lines[3].text();
}

TEST(TopFrame, ARankWithoutAnAnswerSaysWhy) {
  TopModel model;
  RankRow silent;
  silent.rank = 3;
  silent.where = "node7:9464";
  silent.problem = "no answer within 5 s";
  model.setRanks({silent});
  const auto text = textOf(topFrame(model, {.columns = 80, .lines = 24}, false));
  EXPECT_NE(text.find("    3 node7:9464: no answer within 5 s"), std::string::npos);
  EXPECT_NE(text.find("1 rank, 0 training, 1 without an answer"), std::string::npos);
  silent.rank = -1;  // a whole node, of nobody knows how many ranks
  model.setRanks({silent, rankOf(0)});
  const auto nodes = topFrame(model, {.columns = 80, .lines = 24}, false);
  EXPECT_NE(nodes[0].text().find("1 rank, 1 training, 1 without an answer"), std::string::npos);
}

// Every size, with and without Unicode, with all kinds of rows.
TEST(TopFrame, FitsEveryScreen) {
  TopModel model = modelOf(40);
  std::vector<RankRow> rows = model.rows();
  rows[1].memory.budget_bytes.reset();
  rows[2] = {};
  rows[2].rank = 2;
  rows[2].problem = std::string(300, 'x');
  rows[3].memory.budget_bytes = INT64_MAX;
  rows[4].memory.peak_bytes = INT64_MAX;
  rows[5].memory.live_bytes = -5;
  rows[6].steps.median_seconds = 1e300;
  rows[7].recompute_ratio = 1e300;
  rows[8].memory.budget_bytes = 0;
  rows[9].memory.margin_bytes = INT64_MAX;
  rows[10].memory.margin_bytes = -5;
  for (std::size_t i = 0; i < 30; ++i) rows[i].job = std::string(i % 4 * 40, 'j');
  model.setRanks(rows);
  for (int columns = 0; columns <= 260; columns += columns < 90 ? 1 : 17) {
    for (const int lines : {0, 1, 2, 3, 6, 7, 8, 24, 60}) {
      for (const bool unicode : {false, true}) {
        const auto frame = topFrame(model, {.columns = columns, .lines = lines}, unicode);
        EXPECT_LE(frame.size(), static_cast<std::size_t>(lines));
        for (const FrameLine& line : frame) EXPECT_LE(columnsOf(line.text()), columns);
      }
    }
  }
}

TEST(TopFrame, ATinyScreenStillShowsTheSelectedRank) {
  TopModel model = modelOf(5);
  const ScreenSize tiny{.columns = 10, .lines = 3};
  for (int i = 0; i < 4; ++i) model.press(key(Kind::kDown), visibleRows(tiny));
  const auto frame = topFrame(model, tiny, false);
  ASSERT_EQ(frame.size(), 3U);
  EXPECT_EQ(frame[1].text(), "    4 trai");
  EXPECT_TRUE(frame[1].selected);
}

TEST(TopFrame, ScrollsThroughAThousandRanks) {
  TopModel model = modelOf(1024);
  const ScreenSize size{.columns = 80, .lines = 24};  // 18 rows
  model.press(key(Kind::kEnd), visibleRows(size));
  auto frame = topFrame(model, size, false);
  EXPECT_TRUE(frame[20].text().starts_with(" 1023 "));
  EXPECT_TRUE(frame[3].text().starts_with(" 1006 "));  // 1023 - 17
  // The window stays where it is while the selection moves in it.
  model.press(key(Kind::kUp), visibleRows(size));
  frame = topFrame(model, size, false);
  EXPECT_TRUE(frame[20].text().starts_with(" 1023 "));
  EXPECT_TRUE(frame[19].selected);
  model.press(key(Kind::kPageUp), visibleRows(size));
  EXPECT_EQ(model.rows()[model.selected()].rank, 1022 - 18);
}

// Job a: ranks 0 and 1, steps of 0.1 and 0.2 s. Job b: rank 0, a step of 0.3 s, over its budget.
TopModel twoJobs() {
  TopModel model;
  std::vector<RankRow> rows = {rankOf(0), rankOf(0), rankOf(1)};
  rows[0].job = "b";
  rows[0].steps.median_seconds = 0.3;
  rows[0].violations = 2;
  rows[1].job = rows[2].job = "a";
  model.setRanks(std::move(rows));
  return model;
}

TEST(TopFrame, HasASectionForEachOfSeveralJobs) {
  TopModel model = twoJobs();
  const ScreenSize size{.columns = 100, .lines = 24};
  auto lines = topFrame(model, size, false);
  EXPECT_EQ(lines[0].text(), "ebbtide top  2 jobs  3 ranks, 3 training");
  // 3 ranks, of 4 of 8 GiB each.
  EXPECT_EQ(lines[1].text(),
            "peaks 12.00 GiB of budgets 24.00 GiB; 1 went over; slowest 300.0 ms (rank 0 of b)");
  EXPECT_EQ(lines[3].text(),
            "job a  2 ranks, 2 training; peaks 8.00 GiB of budgets 16.00 GiB; slowest 200.0 ms "
            "(rank 1)");
  EXPECT_TRUE(lines[4].text().starts_with("    0 training"));
  EXPECT_TRUE(lines[4].selected);
  EXPECT_TRUE(lines[5].text().starts_with("    1 training"));
  EXPECT_TRUE(lines[6].text().starts_with("job b  1 rank, 1 training; "));
  EXPECT_TRUE(lines[7].text().starts_with("    0 training"));
  EXPECT_FALSE(lines[7].selected);
  EXPECT_TRUE(lines[21].text().starts_with("rank 0 of a on node, "));
  // With one job left: as with one from the begin.
  RankRow last = rankOf(0);
  last.job = "b";
  model.setRanks({last});
  lines = topFrame(model, size, false);
  EXPECT_EQ(lines[0].text(), "ebbtide top  job b  1 rank, 1 training");
  EXPECT_TRUE(lines[3].text().starts_with("    0 training"));
}

// Step times: b's 0.3 s before a's 0.2 and 0.1 s.
TEST(TopModel, SortsJobsByTheirFirstRank) {
  TopModel model = twoJobs();
  model.press(key(Kind::kEnd), 10);
  EXPECT_EQ(model.rows()[model.selected()].job, "b");
  model.press(letter('s'), 10);
  model.press(letter('s'), 10);
  ASSERT_EQ(model.sort(), TopModel::Sort::kStepTime);
  const auto& rows = model.rows();
  EXPECT_EQ(rows[0].job, "b");
  EXPECT_EQ(rows[1].job + std::to_string(rows[1].rank), "a1");
  EXPECT_EQ(rows[2].job + std::to_string(rows[2].rank), "a0");
  EXPECT_EQ(rows[model.selected()].job, "b");
  model.press(letter('b'), 10);
  EXPECT_EQ(model.promptedName(), "rank 0 of b");
  model.press(letter('9'), 10);
  for (const char typed : std::string("GiB")) model.press(letter(typed), 10);
  const TopAction action = model.press(key(Kind::kEnter), 10);
  EXPECT_EQ(action.job, "b");
  EXPECT_EQ(action.rank, 0);
}

// Thirty jobs of one to three ranks: every rank and every heading is on some page, in order.
TEST(TopModel, PagesLeaveOutNoRankOfManyJobs) {
  for (int visible = 1; visible <= 9; ++visible) {
    TopModel model;
    std::vector<RankRow> rows;
    for (int job = 0; job < 30; ++job) {
      for (int rank = 0; rank <= job % 3; ++rank) {
        rows.push_back(rankOf(rank));
        rows.back().job = std::to_string(100 + job);
      }
    }
    model.setRanks(rows);
    ASSERT_EQ(model.lines().size(), 30U + rows.size());
    for (const Kind way : {Kind::kPageDown, Kind::kPageUp}) {
      std::vector<bool> seen(model.lines().size());
      for (std::size_t presses = 0; presses < seen.size(); ++presses) {
        const std::size_t first = model.firstShown(visible);
        for (std::size_t i = first; i < first + static_cast<std::size_t>(visible); ++i) {
          if (i < seen.size()) seen[i] = true;
        }
        model.press(key(way), visible);
      }
      for (std::size_t i = 0; i < seen.size(); ++i) {
        // On one line there is no room for headings.
        if (visible > 1 || !model.lines()[i].is_heading) {
          EXPECT_TRUE(seen[i]) << "line " << i << " of " << visible;
        }
      }
    }
  }
}

TEST(TopModel, SortsAndKeepsTheSelectedRank) {
  TopModel model = modelOf(3);
  model.press(key(Kind::kDown), 10);  // rank 1
  model.press(letter('s'), 10);       // memory: all alike, so by rank
  model.press(letter('s'), 10);       // step time, the longest first
  EXPECT_EQ(model.rows()[0].rank, 2);
  EXPECT_EQ(model.rows()[model.selected()].rank, 1);
  // New answers in another order, with one rank gone.
  model.setRanks({rankOf(1), rankOf(2)});
  EXPECT_EQ(model.rows()[0].rank, 2);
  EXPECT_EQ(model.rows()[model.selected()].rank, 1);
}

TEST(TopModel, TypesABudgetForTheRankThatWasSelected) {
  TopModel model = modelOf(3);
  model.press(key(Kind::kDown), 10);
  model.press(letter('b'), 10);
  for (const char typed : std::string("12GiBx")) model.press(letter(typed), 10);
  model.press(key(Kind::kBackspace), 10);
  EXPECT_EQ(model.prompt(), "12GiB");
  model.setRanks({rankOf(0), rankOf(2)});  // rank 1 is gone: still its budget, not another's
  const TopAction action = model.press(key(Kind::kEnter), 10);
  EXPECT_EQ(action.kind, TopAction::Kind::kSetBudget);
  EXPECT_EQ(action.rank, 1);
  EXPECT_EQ(action.size, "12GiB");
  EXPECT_FALSE(model.prompt());
}

TEST(TopModel, AWrongBudgetStaysToBeCorrected) {
  TopModel model = modelOf(1);
  model.press(letter('b'), 10);
  for (const char typed : std::string("12GB")) model.press(letter(typed), 10);
  EXPECT_EQ(model.press(key(Kind::kEnter), 10).kind, TopAction::Kind::kNone);
  EXPECT_NE(model.message.find("write 12GiB"), std::string::npos);
  EXPECT_EQ(model.prompt(), "12GB");
  model.press(letter('q'), 10);  // a letter here, not the end
  EXPECT_EQ(model.prompt(), "12GBq");
  model.press(key(Kind::kEscape), 10);
  EXPECT_EQ(model.press(letter('q'), 10).kind, TopAction::Kind::kQuit);
}

TEST(TopModel, RandomKeysAndAnswersNeverLeaveTheRows) {
  std::mt19937 random(3);
  TopModel model;
  const std::string letters = "sbt?hjk0123GiB%none.";
  for (int round = 0; round < 20000; ++round) {
    if (random() % 10 == 0) {
      std::vector<RankRow> rows;
      for (unsigned i = random() % 5; i > 0; --i) {
        rows.push_back(rankOf(static_cast<int>(random() % 8)));
        rows.back().job = std::to_string(random() % 3);
      }
      model.setRanks(rows);
    }
    const int kind = static_cast<int>(random() % 10);
    const auto pressed =
        kind == 0 ? letter(letters[random() % letters.size()]) : key(static_cast<Kind>(kind));
    const int visible = static_cast<int>(random() % 4);
    model.press(pressed, visible);
    if (!model.rows().empty()) {
      ASSERT_LT(model.selected(), model.rows().size());
      // A window of `visible` lines, 1 at least, has the selected one in it.
      const std::size_t first = model.firstShown(visible);
      bool shown = false;
      for (std::size_t i = first; i < first + std::max(visible, 1) && i < model.lines().size();
           ++i) {
        shown |= model.lines()[i].row == model.selected() && !model.lines()[i].is_heading;
      }
      ASSERT_TRUE(shown);
    }
  }
}

TEST(TrendLine, ScalesFromTheLeastToTheMost) {
  EXPECT_EQ(trendLine({1, 2, 3}, 5, true), "  ▁▅█");  // 0, 4 of 8, 8 of 8
  EXPECT_EQ(trendLine({1, 2, 3}, 2, true), "▁█");     // the latest two
  EXPECT_EQ(trendLine({100, 101}, 2, true), "▁▁");    // 1 of a range of 10.1: noise
  EXPECT_EQ(trendLine({}, 3, true), "   ");
  EXPECT_EQ(trendLine({0, 0}, 2, true), "▁▁");
}

}  // namespace
}  // namespace ebbtide::cli
