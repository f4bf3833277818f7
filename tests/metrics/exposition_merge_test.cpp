#include "exposition_merge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ebbtide::metrics {
namespace {

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(ExpositionMerge, EachFamilyStandsOnce) {
  const std::string first =
      "# HELP up Whether it is.\n# TYPE up gauge\nup{rank=\"0\"} 1\n"
      "# TYPE step histogram\nstep_bucket{rank=\"0\",le=\"1\"} 2\nstep_sum{rank=\"0\"} 3\n"
      "step_count{rank=\"0\"} 2\n";
  const std::string second =
      "# TYPE step histogram\nstep_bucket{rank=\"1\",le=\"1\"} 5\nstep_sum{rank=\"1\"} 6\n"
      "step_count{rank=\"1\"} 5\n"
      "# HELP up Said otherwise.\n# TYPE up gauge\nup{rank=\"1\"} 0\n"
      "# HELP own Of one rank.\n# TYPE own counter\nown{rank=\"1\"} 9\n";
  EXPECT_EQ(mergeExpositions({first, second}, false),
            "# HELP up Whether it is.\n# TYPE up gauge\nup{rank=\"0\"} 1\nup{rank=\"1\"} 0\n"
            "# TYPE step histogram\nstep_bucket{rank=\"0\",le=\"1\"} 2\nstep_sum{rank=\"0\"} 3\n"
            "step_count{rank=\"0\"} 2\nstep_bucket{rank=\"1\",le=\"1\"} 5\nstep_sum{rank=\"1\"} "
            "6\nstep_count{rank=\"1\"} 5\n"
            "# HELP own Of one rank.\n# TYPE own counter\nown{rank=\"1\"} 9\n");
}

TEST(ExpositionMerge, OpenMetricsEndsOnce) {
  const std::string text = "# TYPE ops counter\n# UNIT ops ops\nops_total{rank=\"0\"} 1\n# EOF\n";
  const std::string other = "# TYPE ops counter\nops_total{rank=\"1\"} 2\n# EOF\n";
  EXPECT_EQ(mergeExpositions({text, other}, true),
            "# TYPE ops counter\n# UNIT ops ops\nops_total{rank=\"0\"} 1\nops_total{rank=\"1\"} "
            "2\n# EOF\n");
  EXPECT_EQ(mergeExpositions({}, true), "# EOF\n");
  EXPECT_EQ(mergeExpositions({}, false), "");
}

TEST(ExpositionMerge, OfTheSameSeriesTheFirstIsKept) {
  EXPECT_EQ(mergeExpositions({"a{x=\"1\"} 1\n", "a{x=\"1\"} 2\na{x=\"2\"} 3\n"}, false),
            "a{x=\"1\"} 1\na{x=\"2\"} 3\n");
}

TEST(ExpositionMerge, BracesAndQuotesInsideALabelAreTheLabels) {
  const std::string odd = "a{x=\"} 7 \\\" {\"} 1\n";
  EXPECT_EQ(mergeExpositions({odd, "a{x=\"}\"} 2\n"}, false), odd + "a{x=\"}\"} 2\n");
}

// A gauge that ends with a histogram's ending is its own family.
TEST(ExpositionMerge, AnEndingCountsByType) {
  const std::string text = "# TYPE ranks gauge\nranks 1\n# TYPE ranks_count gauge\nranks_count 2\n";
  EXPECT_EQ(mergeExpositions({text, text}, false), text);
}

TEST(ExpositionMerge, WhatIsNoSampleIsLeftOut) {
  EXPECT_EQ(mergeExpositions({"\n{} 1\n-\na\na{\na{x=\"1\"\na{x=\"1\"}\na{x=\"1\"} \n# note\n"
                              "# HELP\n# TYPE \nb 1\ncut 1"},
                             false),
            "b 1\n");
}

// Random texts of few names, whole and with bytes changed. Well-formed texts lose and gain no
// series. From all texts each family's lines come out together, and nothing else does.
TEST(ExpositionMerge, KeepsEverySeriesAndEveryFamilyTogether) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> texts(random() % 5);
    std::set<std::string> series;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      std::vector<int> families = {0, 1, 2, 3};
      std::shuffle(families.begin(), families.end(), random);
      families.resize(random() % 5);
      for (const int family : families) {
        const std::string name = "f" + std::to_string(family);
        texts[rank] += "# TYPE " + name + " " + (family == 0 ? "histogram" : "gauge") + "\n";
        for (std::size_t sample = random() % 3; sample > 0; --sample) {
          const std::string one = name + (family == 0 ? "_sum" : "") + "{rank=\"" +
                                  std::to_string(rank) + "\",n=\"" + std::to_string(sample) + "\"}";
          series.insert(one);
          texts[rank] += one + " 1\n";
        }
      }
    }
    const bool spoilt = round % 2 == 1;
    for (std::string& text : texts) {
      for (int change = 0; spoilt && change < 3 && !text.empty(); ++change) {
        text[random() % text.size()] = "{}\"\\ #\n\0f_1"[random() % 12];
      }
    }
    const std::string merged =
        mergeExpositions(std::vector<std::string_view>(texts.begin(), texts.end()), true);
    std::set<std::string> found;
    std::set<std::string> typed;
    for (const std::string& line : linesOf(merged)) {
      if (line.starts_with("# TYPE ")) {
        EXPECT_TRUE(typed.insert(line.substr(0, line.find(' ', 7))).second) << merged;
      } else if (!line.starts_with('#')) {
        EXPECT_TRUE(found.insert(line.substr(0, line.rfind(' '))).second || spoilt) << merged;
      }
    }
    if (!spoilt) {
      EXPECT_EQ(found, series) << merged;
    }
    EXPECT_TRUE(merged.ends_with("# EOF\n"));
    // What is merged already stays as it is.
    EXPECT_EQ(mergeExpositions({merged}, true), merged);
    EXPECT_EQ(mergeExpositions({merged, merged}, true), merged);
  }
}

}  // namespace
}  // namespace ebbtide::metrics
