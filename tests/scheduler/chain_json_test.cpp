#include "io/chain_json.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "small_chain_file.hpp"

namespace ebbtide::scheduler {
namespace {

TEST(ChainJson, ReadsBytesAndSeconds) {
  const Chain chain = chainFromTree(smallChainFile());
  EXPECT_EQ(chain.stages(), 3u);
  EXPECT_EQ(chain.activation_bytes, (std::vector<Bytes>{10, 20, 30}));
  EXPECT_EQ(chain.saved_bytes, (std::vector<Bytes>{25, 45, 5}));
  EXPECT_EQ(chain.forward_workspace_bytes, (std::vector<Bytes>{1, 2, 3}));
  EXPECT_EQ(chain.backward_workspace_bytes, (std::vector<Bytes>{4, 5, 6}));
  // Seconds: 0.5, 1e-9 and 0 are 500,000,000 ns, 1 ns and 0 ns.
  EXPECT_EQ(chain.forward_ns, (std::vector<Nanoseconds>{500'000'000, 1, 0}));
  EXPECT_EQ(chain.backward_ns, (std::vector<Nanoseconds>{1'000'000'000, 2'000'000'000, 3}));
}

TEST(ChainJson, NamesWhatIsWrongAndWhere) {
  struct Damage {
    std::function<void(nlohmann::json&)> apply;
    const char* message;
  };
  const Damage damages[] = {
      {[](auto& j) { j["format"] = 1; }, "chain: format is not 'ebbtide-chain-1'"},
      {[](auto& j) { j["more"] = 1; },
       "chain: unknown key 'more'; known: format activation_bytes saved_bytes "
       "forward_workspace_bytes backward_workspace_bytes forward_seconds backward_seconds"},
      {[](auto& j) { j.erase("saved_bytes"); }, "chain: 'saved_bytes' is missing"},
      {[](auto& j) { j["saved_bytes"][1] = -1; }, "chain: saved_bytes[1] is negative"},
      {[](auto& j) { j["saved_bytes"][2] = 1.5; },
       "chain: saved_bytes[2]: 1.5 is not a whole number of 64 bits"},
      {[](auto& j) { j["activation_bytes"][0] = std::int64_t{1} << 61; },
       "chain: the chain's sums up to activation_bytes[0] do not fit 63 bits"},
      {[](auto& j) { j["forward_seconds"][0] = -1; },
       "chain: forward_seconds[0]: is not a time from 0 to 146 years, in seconds"},
      {[](auto& j) { j["backward_seconds"][1] = 1e300; },
       "chain: backward_seconds[1]: is not a time from 0 to 146 years, in seconds"},
      {[](auto& j) { j["backward_seconds"][1] = nullptr; },  // how some write NaN
       "chain: backward_seconds[1]: expected a number"},
      {[](auto& j) { j["saved_bytes"].push_back(1); },
       "chain: a chain of 3 stages has 4 entries in saved_bytes"},
      {[](auto& j) { j["forward_seconds"] = nlohmann::json::array(); },
       "chain: a chain has at least one stage, the loss"},
  };
  for (const Damage& damage : damages) {
    nlohmann::json file = smallChainFile();
    damage.apply(file);
    try {
      chainFromTree(file);
      ADD_FAILURE() << damage.message;
    } catch (const std::invalid_argument& error) {
      EXPECT_STREQ(error.what(), damage.message);
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
