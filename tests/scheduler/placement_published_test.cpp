// Published instances, to the heights that their own solvers reach.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <ostream>
#include <string>

#include "ebbtide/scheduler/placement_csv.hpp"
#include "ebbtide/scheduler/placement_validator.hpp"

namespace ebbtide::scheduler {
namespace {

struct Published {
  const char* name;
  Bytes capacity_bytes;   // 0: none is published
  double most_over_load;  // without one
  int seconds;            // at most; most take far less
  friend void PrintTo(const Published& published, std::ostream* out) { *out << published.name; }
};

class PublishedPlacement : public testing::TestWithParam<Published> {
 protected:
  void SetUp() override {
    const std::string folder = EBBTIDE_PUBLISHED_DATA;
    if (folder.empty()) {
      GTEST_SKIP() << "set EBBTIDE_PUBLISHED_DATA (docs/placement.md) and configure again";
    }
    const std::string file = std::string("/placement/") + GetParam().name + ".csv";
    std::ifstream in(folder + file);
    if (!in) GTEST_SKIP() << "no " << folder << file;
    table_ = placementFromCsv(std::string((std::istreambuf_iterator<char>(in)), {}));
  }

  PlacementTable table_;
};

TEST_P(PublishedPlacement, IsAsLowAsPublished) {
  PlacementOptions options;
  options.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(GetParam().seconds);
  options.capacity_bytes = GetParam().capacity_bytes;
  options.threads = 2;
  const Placement placement = place(table_.problem, options);
  const Bytes capacity = GetParam().capacity_bytes;
  if (capacity > 0) {
    EXPECT_EQ(validate(table_.problem, placement, capacity).value_or(""), "");
    return;
  }
  EXPECT_EQ(validate(table_.problem, placement).value_or(""), "");
  EXPECT_LE(static_cast<double>(placement.height_bytes),
            GetParam().most_over_load * static_cast<double>(placement.load_bytes));
}

constexpr Bytes kMinimalloc = 1'048'576;

// The time is for slow builds and busy machines: docs/placement.md has what it takes.
INSTANTIATE_TEST_SUITE_P(All, PublishedPlacement,
                         testing::Values(Published{"somas_resnet50", 0, 1, 60},
                                         Published{"iopddl_G_1", 0, 1, 60},
                                         Published{"iopddl_Y_1", 0, 1.001, 60},
                                         Published{"minimalloc_A.1048576", kMinimalloc, 0, 120},
                                         Published{"minimalloc_C.1048576", kMinimalloc, 0, 120},
                                         Published{"minimalloc_E.1048576", kMinimalloc, 0, 120},
                                         Published{"minimalloc_F.1048576", kMinimalloc, 0, 120},
                                         Published{"minimalloc_G.1048576", kMinimalloc, 0, 120},
                                         Published{"minimalloc_I.1048576", kMinimalloc, 0, 120},
                                         Published{"minimalloc_J.1048576", kMinimalloc, 0, 120}),
                         [](const auto& instance) {
                           const std::string name = instance.param.name;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace ebbtide::scheduler
