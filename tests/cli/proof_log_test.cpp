// What a run under EBBTIDE_PROOF leaves, whole and damaged.
#include "prove/proof_log.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

constexpr const char* kHead = "{\"rank\": 1, \"began\": 12.5}\n";
constexpr const char* kFirst = "{\"update\": 1, \"seconds\": null, \"checksum\": \"aa\"}\n";
constexpr const char* kSecond = "{\"update\": 2, \"seconds\": 0.25, \"checksum\": \"bb\"}\n";

TEST(ProofLog, HasRankChecksumsAndTimes) {
  const ProofLog log = parseProofLog(std::string(kHead) + kFirst + kSecond + "{\"end\": 2}\n");
  EXPECT_EQ(log.rank, 1);
  EXPECT_DOUBLE_EQ(log.began, 12.5);
  ASSERT_EQ(log.updates.size(), 2U);
  EXPECT_FALSE(log.updates[0].seconds.has_value());
  EXPECT_DOUBLE_EQ(log.updates[1].seconds.value(), 0.25);
  EXPECT_EQ(log.updates[1].checksum, "bb");
  EXPECT_TRUE(log.ended);
}

TEST(ProofLog, EndsWhereAProcessWasKilled) {
  const std::string cut(kSecond, 20);
  const ProofLog log = parseProofLog(std::string(kHead) + kFirst + cut);
  EXPECT_EQ(log.updates.size(), 1U);
  EXPECT_FALSE(log.ended);
}

// A whole line of JSON that only lacks its end may lack more.
TEST(ProofLog, TakesNoLineWithoutItsEnd) {
  std::string text = std::string(kHead) + kFirst;
  text.pop_back();
  EXPECT_TRUE(parseProofLog(text).updates.empty());
}

TEST(ProofLog, EndsBeforeWhatIsNotTheNextUpdate) {
  for (const std::string& wrong :
       {std::string(kFirst), std::string("no json\n"), std::string("[]\n"), std::string("\n"),
        std::string("{\"update\": 3, \"checksum\": \"cc\"}\n"),
        std::string("{\"update\": 2, \"checksum\": 7}\n"), std::string(100, '[') + "\n"}) {
    EXPECT_EQ(parseProofLog(std::string(kHead) + kFirst + wrong + kSecond).updates.size(), 1U)
        << wrong;
  }
}

TEST(ProofLog, SaysWhatIsNotCompared) {
  const ProofLog log = parseProofLog(
      std::string(kHead) +
      "{\"update\": 1, \"seconds\": null, \"checksum\": null, \"skipped\": {\"Sparse\": 2}}\n");
  EXPECT_EQ(log.updates.at(0).checksum, "");
  EXPECT_EQ(log.skipped.at("Sparse"), 2);
}

TEST(ProofLog, ProcessesStandByRankThenByTime) {
  const test::Folder folder;
  const auto write = [&](const char* name, const std::string& head) {
    std::ofstream(folder.path() + "/" + name) << head << kFirst;
  };
  write("10.jsonl", "{\"rank\": null, \"began\": 2.0}\n");
  write("11.jsonl", "{\"rank\": 1, \"began\": 1.0}\n");
  write("12.jsonl", "{\"rank\": null, \"began\": 1.5}\n");
  write("13.jsonl", "{\"rank\": 0, \"began\": 9.0}\n");
  std::ofstream(folder.path() + "/14.jsonl") << kHead;  // killed before its first update
  std::ofstream(folder.path() + "/report-0.json") << "{}";
  const std::vector<ProofLog> logs = readProofLogs(folder.path());
  ASSERT_EQ(logs.size(), 4U);
  EXPECT_EQ(nameOf(logs[0], 0, 4), "rank 0");
  EXPECT_EQ(nameOf(logs[1], 1, 4), "rank 1");
  EXPECT_EQ(nameOf(logs[2], 2, 4), "process 3");
  EXPECT_DOUBLE_EQ(logs[2].began, 1.5);
  EXPECT_EQ(nameOf(logs[2], 0, 1), "rank 0");  // alone
}

}  // namespace
}  // namespace ebbtide::cli
