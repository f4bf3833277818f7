#include "job/rank_report.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "../../scheduler/mutations.hpp"
#include "job_reports.hpp"

namespace ebbtide::plugin {
namespace {

std::string problemOf(const std::string& text) {
  try {
    reportFromText(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

const JobVersions kVersions{JobVersions::kProtocol, "0.1.0", "2.11.0"};

std::string problemOfObject(const std::string& object) {
  return problemOf(packedReport(kVersions, object));
}

// Something of its object said otherwise.
std::string with(const std::string& text, const std::string& from, const std::string& to) {
  std::string object = unpackedReport(text);
  const std::size_t at = object.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << object;
  if (at != std::string::npos) object.replace(at, from.size(), to);
  return packedReport(kVersions, object);
}

TEST(RankReport, ComesBackAsItWas) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const RankReport report = randomReport(seed);
    EXPECT_TRUE(reportFromText(toText(report)) == report)
        << seed << ": " << unpackedReport(toText(report));
  }
}

TEST(RankReport, WhyARankIsUnableIsAllThatItSays) {
  RankReport report = pipelineReport(2, 4);
  report.unable = "its sends and receives are not understood";
  RankReport expected;
  expected.versions = report.versions;
  expected.rank = 2;
  expected.size = 4;
  expected.global_rank = 10;
  expected.unable = report.unable;
  EXPECT_TRUE(reportFromText(toText(report)) == expected);
  report.unable = std::string(10'000, '\xff');  // no UTF-8, too long
  EXPECT_LT(toText(report).size(), 5'000u);
  EXPECT_NE(reportFromText(toText(report)).unable, "");
}

// Two stages, 256 microbatches, three actions each: 1,536 actions. With times of minutes and sizes
// of 100 GB, all labelled, and 512 replays, no two alike: 512 * 14 bits are 0.9 KB.
TEST(RankReport, ALargeOneTakesNoMoreThanARankMaySend) {
  RankReport report = pipelineReport(1000, 1024, 2, 256, 16);
  const std::size_t pairs = report.actions.size();
  for (std::size_t i = 512; i < pairs; ++i) {
    RankReport::Action& backward = report.actions[i];
    RankReport::Action weights = backward;
    backward.kind = scheduler::PipelineAction::Kind::kInputBackward;
    weights.kind = scheduler::PipelineAction::Kind::kWeightBackward;
    weights.messages.clear();
    report.actions.push_back(weights);
  }
  ASSERT_EQ(report.actions.size(), 1536u);
  for (auto& action : report.actions) {
    for (auto& message : action.messages) message.bytes += 100'000'000'000;
  }
  std::int64_t replays = 300'000'000;
  for (auto& chunk : report.chunks) chunk.own_replay_ns = replays += 7919;
  for (auto& of : report.classes) {
    for (auto& ns : of.busy_ns) ns += 300'000'000'000;
    for (auto& point : of.points) {
      point.held_bytes += 100'000'000'000;
      point.forward_bytes += 100'000'000'000;
      point.backward_bytes += 100'000'000'000;
    }
  }
  EXPECT_LT(toText(report).size(), kMostReportBytes / 4);
  EXPECT_TRUE(reportFromText(toText(report)) == report);
}

TEST(RankReport, SaysWhatIsWrong) {
  const std::string text = toText(pipelineReport(0, 2, 1, 2, 2));
  ASSERT_EQ(problemOf(text), "");
  EXPECT_EQ(problemOf(""), "its first line is none of ours");
  EXPECT_EQ(problemOf("GET / HTTP/1.1\n"), "its first line is none of ours");
  EXPECT_EQ(problemOf("ebbtide-job one 0.1.0 2.11.0\n{}"), "its protocol is no number");
  EXPECT_EQ(problemOf("ebbtide-job 2 0.1.0\n{}"), "its first line is none of ours");
  EXPECT_EQ(problemOf("ebbtide-job 4 0.1.0 2.11.0\n{}"), "what is packed in it is damaged");
  EXPECT_EQ(problemOf(text.substr(0, text.size() - 5)), "what is packed in it is cut short");
  EXPECT_EQ(problemOf(text + "{"), "something follows what is packed in it");
  EXPECT_EQ(problemOfObject("[]"), "it is no JSON object");
  EXPECT_EQ(problemOfObject("{}"), "\"size\" is not there");
  EXPECT_EQ(problemOf(with(text, "\"rank\":0", "\"rank\":2")), "\"rank\" has 2, not in 0 to 1");
  EXPECT_EQ(problemOf(with(text, "\"rank\":0", "\"rank\":0.5")),
            "\"rank\" has something else than a whole number");
  EXPECT_EQ(problemOf(with(text, "\"budget\":1000", "\"budget\":18446744073709551615")),
            "\"budget\" has 18446744073709551615, not in 0 to 1125899906842624");
  // Two forwards: each one's passes come in their order.
  EXPECT_EQ(problemOf(with(text, "\"chunk\":[0,0,", "\"chunk\":[0,1,")), "\"chunk\" comes to 2");
  EXPECT_EQ(problemOf(with(text, "\"chunk\":[0,0,", "\"chunk\":[0,-2,")), "\"chunk\" comes to -1");
  EXPECT_EQ(problemOf(with(text, "\"chunk\":[0,0,", "\"chunk\":[0,")),
            "\"chunk\" has 3 numbers where 4 belong");
  EXPECT_EQ(problemOf(with(text, "\"microbatch\":[0,1]", "\"microbatch\":[0,-2]")),
            "\"microbatch\" comes to -2");
  EXPECT_EQ(problemOf(with(text, "\"back\":[0,0]", "\"back\":[0,2]")),
            "\"back\" goes to before the first one");
  // Twice 10 ns, as twice one unit; all together no more than 2^50 ns.
  EXPECT_EQ(problemOf(with(text, "\"own_replay\":[1,1]", "\"own_replay\":[1,112589990684263]")),
            "\"own_replay\" has 112589990684263, not in 0 to 112589990684262");
  EXPECT_EQ(problemOf(with(text, "\"own_replay\":[1,1]", "\"own_replay\":[1,112589990684262]")),
            "its replays take too long");
  EXPECT_EQ(problemOf(with(text, "\"busy_ns\":[20,20,0,0]", "\"busy_ns\":[20,20,0]")),
            "\"busy_ns\" has 3 numbers where 4 belong");
  EXPECT_EQ(problemOf(with(text, "\"FFBB\"", "\"FFBX\"")),
            "\"kinds\" has something else than FBIW");
  EXPECT_EQ(problemOf(with(text, "\"short\":true", "\"short\":1")),
            "\"short\" is neither true nor false");
  // Two points: 20 bytes and no replays, 10 bytes and 10 ns.
  EXPECT_EQ(problemOf(with(text, "\"held\":[20,10]", "\"held\":[20,20]")),
            "a point takes less while it runs than what it holds");
  EXPECT_EQ(problemOf(with(text, "\"recompute_ns\":[0,10]", "\"recompute_ns\":[0,0]")),
            "a point recomputes no more or holds no less than the one before");
  EXPECT_EQ(problemOf(with(text, "\"point_counts\":[2]", "\"point_counts\":[3]")),
            "there are fewer points than \"point_counts\" says");
  EXPECT_EQ(problemOf(with(text, "\"point_counts\":[2]", "\"point_counts\":[1]")),
            "there are more points than \"point_counts\" says");
  EXPECT_EQ(problemOf(with(text, "\"message_counts\":[2,", "\"message_counts\":[1,")),
            "\"messages\" has more than \"message_counts\" says");
  EXPECT_EQ(problemOf(with(text, "\"message_counts\":[2,", "\"message_counts\":[3,")),
            "\"messages\" has fewer than \"message_counts\" says");
}

// The object damaged, or what is packed of it.
TEST(RankReport, DamagedOnesAreRefusedOrStillInRange) {
  const std::string text = toText(pipelineReport(1, 4, 2, 3, 3));
  const std::string object = unpackedReport(text);
  for (std::uint64_t seed = 0; seed < 40'000; ++seed) {
    scheduler::Mutations damage(seed);
    const std::string damaged =
        seed % 2 == 0 ? packedReport(kVersions, damage.apply(object)) : damage.apply(text);
    try {
      const RankReport report = reportFromText(damaged);
      ASSERT_LT(report.rank, report.size) << seed;
      for (const auto& chunk : report.chunks) {
        ASSERT_LT(static_cast<std::size_t>(chunk.chunk_class), report.classes.size()) << seed;
        ASSERT_LT(chunk.previous, static_cast<std::int32_t>(report.chunks.size())) << seed;
      }
      for (const auto& action : report.actions)
        ASSERT_LT(static_cast<std::size_t>(action.chunk), report.chunks.size()) << seed;
      ASSERT_TRUE(reportFromText(toText(report)) == report) << seed;
    } catch (const std::invalid_argument& error) {
      ASSERT_STRNE(error.what(), "") << seed;
    }
  }
}

// 1 MiB of "[" has to be refused, not to end the process; so has more than that, packed.
TEST(RankReport, DeepNestingAndMuchOfItAreRefused) {
  EXPECT_EQ(problemOfObject(std::string(1 << 20, '[')), "it is no JSON object");
  EXPECT_EQ(problemOfObject("{\"size\":" + std::string((1 << 19) - 8, '[') +
                            std::string((1 << 19) - 8, ']') + "}"),
            "\"size\" has something else than a whole number");
  const std::string much(std::size_t{1} << 24, ' ');
  EXPECT_LT(packedReport(kVersions, much).size(), kMostReportBytes);
  EXPECT_EQ(problemOfObject(much), "it unpacks to more than 1048576 bytes");
  EXPECT_EQ(problemOfObject(much.substr(0, (1 << 20) + 1)),
            "it unpacks to more than 1048576 bytes");
}

}  // namespace
}  // namespace ebbtide::plugin
