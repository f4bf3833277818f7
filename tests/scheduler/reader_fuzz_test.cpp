// Whatever a file holds, a reader gives a graph that the judges can use, or std::invalid_argument.
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/graph_file.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "mutations.hpp"
#include "random_graphs.hpp"
#include "small_chain_file.hpp"
#include "small_graphs.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::uint64_t kInputs = 4'000;  // of each sample

struct Sample {
  std::string name;
  std::string text;
  friend void PrintTo(const Sample& sample, std::ostream* out) { *out << sample.name; }
};

class ReaderFuzz : public testing::TestWithParam<Sample> {
 protected:
  // Runs `read` on each damaged text; how many it accepted.
  std::uint64_t accepted(const std::function<void(const std::string&)>& read) const {
    std::uint64_t count = 0;
    for (std::uint64_t seed = 0; seed < kInputs; ++seed) {
      const std::string text = Mutations(seed).apply(GetParam().text);
      try {
        read(text);
        ++count;
      } catch (const std::invalid_argument& error) {
        EXPECT_STRNE(error.what(), "") << seed;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << text;
      }
    }
    return count;
  }
};

TEST_P(ReaderFuzz, GivesAUsableGraphOrSaysWhatIsWrong) {
  for (const CostModel model : {CostModel::kReal, CostModel::kPaper}) {
    accepted([&](const std::string& text) {
      const Graph graph = readGraph(text, GraphFormat::kAuto, model);
      const Schedule schedule = keepEverything(graph);
      EXPECT_EQ(validate(graph, schedule).value_or(""), "") << text;
      EXPECT_GE(simulate(graph, schedule).peak_bytes, peakLowerBound(graph)) << text;
    });
  }
}

// What a mutation leaves alone is read, so the above is not idle.
TEST_P(ReaderFuzz, AcceptsSome) {
  const auto read = [](const std::string& text) {
    readGraph(text, GraphFormat::kAuto, CostModel::kReal);
  };
  EXPECT_NO_THROW(read(GetParam().text));
  const std::uint64_t count = accepted(read);
  EXPECT_GT(count, kInputs / 100);
  EXPECT_LT(count, kInputs);
}

// Ids that are texts and numbers, an order, both names of each field.
const char* const kMoccasinText =
    R"({"directed":true,"multigraph":false,"graph":{"name":"g","order":[0,"b",2]},"nodes":[)"
    R"({"id":2,"name":"c","cost_ram":30,"cost_cpu":7},{"id":0,"out_cost":10,"duration":5.5},)"
    R"({"id":"b","out_cost":20,"duration":6}],"links":[{"source":0,"target":"b"},)"
    R"({"source":"b","target":2},{"0":0,"1":2}]})";

// Weights 0 and data 1 -> convolution -> 2 -> loss -> 3, and the backward pass.
const char* const kKusumotoText =
    "4 4\n0 8 /conv/W\n1 100 x\n2 40 _\n3 4 _\n"
    "forward\n2 1\n1 _\n0 _\n2\nConvolution2DFunction\n{\"rank\": 0}\n"
    "forward\n1 1\n2 _\n3\nSoftmaxCrossEntropy\n{\"rank\": 1}\n"
    "backward\n1 1\n2 input\n2\nSoftmaxCrossEntropy\n{\"rank\": 1}\n"
    "backward\n3 2\n2 gradient\n1 input\n0 input\n0\n2\nConvolution2DFunction\n{\"rank\": 0}\n";

INSTANTIATE_TEST_SUITE_P(All, ReaderFuzz,
                         testing::Values(Sample{"graph", toJson(randomGraph(3, 8))},
                                         Sample{"trace", toJson(twoOps())},
                                         Sample{"trace_of_a_rank", toJson(twoOpsOfARank())},
                                         Sample{"moccasin", kMoccasinText},
                                         Sample{"kusumoto", kKusumotoText},
                                         Sample{"chain", smallChainFile().dump()}),
                         [](const auto& sample) { return sample.param.name; });

TEST(ScheduleFuzz, GivesAScheduleThatTheValidatorCanJudge) {
  const Graph graph = chain(4);
  const std::string whole = toJson(keepEverything(graph));
  for (std::uint64_t seed = 0; seed < kInputs; ++seed) {
    const std::string text = Mutations(seed).apply(whole);
    try {
      const Schedule schedule = scheduleFromJson(text);
      if (!validate(graph, schedule)) simulate(graph, schedule);
    } catch (const std::invalid_argument& error) {
      EXPECT_STRNE(error.what(), "") << text;
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
