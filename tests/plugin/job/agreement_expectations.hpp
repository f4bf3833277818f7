// What tests of JobAgreement expect of all ranks of a SimulatedJob.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simulated_job.hpp"

namespace ebbtide::plugin {

using Strings = std::vector<std::string>;

inline Strings keys(SimulatedJob& job) {
  Strings keys;
  for (const auto& [key, value] : job.contents()) keys.push_back(key);
  return keys;
}

inline void expectOwnPlans(SimulatedJob& job, const std::string& why) {
  for (std::size_t i = 0; i < job.size(); ++i) {
    EXPECT_TRUE(job.rank(i).commits.empty()) << i;
    EXPECT_EQ(job.rank(i).kept, Strings{why}) << i;
    EXPECT_EQ(job.rank(i).said, i > 0 ? Strings()
                                      : Strings{"no plan for the whole job: " + why +
                                                "; each rank trains on with its own"});
  }
}

inline void expectAgreed(SimulatedJob& job, std::size_t commits = 1) {
  for (std::size_t i = 0; i < job.size(); ++i) {
    SimulatedJob::Rank& rank = job.rank(i);
    ASSERT_EQ(rank.commits.size(), commits)
        << i << testing::PrintToString(rank.kept) << testing::PrintToString(rank.debugged);
    EXPECT_EQ(rank.commits.back().plan, job.planNow()) << i;
    EXPECT_EQ(rank.commits.back().step, job.rank(0).commits.back().step) << i;
    EXPECT_TRUE(rank.kept.empty()) << i << ": " << rank.kept.front();
    EXPECT_TRUE(rank.said.empty()) << i << ": " << rank.said.front();
  }
}

}  // namespace ebbtide::plugin
