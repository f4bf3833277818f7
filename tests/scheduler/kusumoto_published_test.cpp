// Table 1 of kusumoto2019 on the graphs that its authors published: memory saved at the smallest
// budget, with liveness analysis, by the best of the paper's four programs.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "io/kusumoto_graph.hpp"

namespace ebbtide::scheduler {
namespace {

struct Published {
  const char* file;
  int batch_factor;        // the paper's batch over the file's, by the largest activation
  double saved_percent;    // Table 1
  double parameter_bytes;  // with their gradients, which the table counts in
  friend void PrintTo(const Published& published, std::ostream* out) { *out << published.file; }
};

// The text with all intermediate results but the loss (4 bytes) as large as in a larger batch.
std::string withBatch(const std::string& text, int factor) {
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  std::string result = line + "\n";
  for (std::size_t left = std::stoul(line); left > 0; --left) {
    std::int64_t id = 0, bytes = 0;
    std::string name;
    in >> id >> bytes >> name;
    if (name == "_" && bytes > 4) bytes *= factor;
    result += std::to_string(id) + " " + std::to_string(bytes) + " " + name + "\n";
  }
  std::getline(in, line);
  result.append(std::istreambuf_iterator<char>(in), {});
  return result;
}

class Table1 : public testing::TestWithParam<Published> {
 protected:
  void SetUp() override {
    const std::string folder = EBBTIDE_PUBLISHED_DATA;
    if (folder.empty()) {
      GTEST_SKIP() << "set EBBTIDE_PUBLISHED_DATA (docs/planning.md) and configure again";
    }
    std::ifstream file(folder + "/graphs/kusumoto/" + GetParam().file);
    ASSERT_TRUE(file) << "no graphs/kusumoto/" << GetParam().file << " in " << folder;
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    text_ = withBatch(text, GetParam().batch_factor);
  }

  // Smallest peak, no budget: all in one call.
  static PlanResult smallest(const Graph& graph, const std::string& name,
                             const std::string& liveness) {
    PlannerOptions options;
    options.named = {{"strategy", "memory"}, {"liveness", liveness}};
    PlanResult result = planner(name).plan(graph, 0, options);
    EXPECT_EQ(validate(graph, result.schedule).value_or(""), "");
    return result;
  }

  std::string text_;
};

// The paper's model has no parameters; the table's peaks hold them and their gradients.
TEST_P(Table1, SavesWhatThePaperSaves) {
  const Graph graph = kusumotoGraph(text_, CostModel::kPaper);
  const double plain = static_cast<double>(simulate(graph, keepEverything(graph)).peak_bytes) +
                       GetParam().parameter_bytes;
  for (const char* name : {"kusumoto-approx", "kusumoto-exact"}) {
    const PlanResult early = smallest(graph, name, "on");
    const PlanResult late = smallest(graph, name, "off");
    EXPECT_LT(early.peak_bytes, late.peak_bytes);
    const double peak = static_cast<double>(early.peak_bytes) + GetParam().parameter_bytes;
    const double saved = 100 * (1 - peak / plain);
    EXPECT_GE(saved, GetParam().saved_percent) << name;
    RecordProperty(std::string(name) + "_saved_permille", static_cast<int>(10 * saved));
  }
}

// In the real model Chainer's functions keep less in the first place. No schedule saves more than
// the lower bound allows; for VGG19 that is less than Table 1's share, and is reached.
TEST_P(Table1, SavesAsMuchOrAllThatCanBeSavedInTheRealModel) {
  const Graph graph = kusumotoGraph(text_, CostModel::kReal);
  const double plain = static_cast<double>(simulate(graph, keepEverything(graph)).peak_bytes);
  for (const char* name : {"kusumoto-approx", "kusumoto-exact"}) {
    const PlanResult result = smallest(graph, name, "on");
    const double saved = 100 * (1 - static_cast<double>(result.peak_bytes) / plain);
    if (result.peak_bytes > peakLowerBound(graph)) {
      EXPECT_GE(saved, GetParam().saved_percent) << name;
    }
    RecordProperty(std::string(name) + "_saved_permille", static_cast<int>(10 * saved));
  }
}

std::string identifier(const testing::TestParamInfo<Published>& param) {
  const std::string file = param.param.file;
  return file.substr(3, file.size() - 7);  // without cg_ and .txt
}

// Largest activations: VGG19's first convolution 64 x 224^2 x 4 bytes is 32 times as large in the
// file (64 in the paper), ResNet50's 64 x 112^2 x 4 bytes 32 times (96), U-Net's batch is 8 in
// both.
INSTANTIATE_TEST_SUITE_P(Kusumoto, Table1,
                         testing::Values(Published{"cg_vgg19.txt", 2, 36, 1.188e9},
                                         Published{"cg_resnet50.txt", 3, 62, 0.243e9},
                                         Published{"cg_unet.txt", 1, 48, 0.280e9}),
                         identifier);

}  // namespace
}  // namespace ebbtide::scheduler
