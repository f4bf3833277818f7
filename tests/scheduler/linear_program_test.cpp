#include "solver/linear_program.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

namespace ebbtide::scheduler {
namespace {

// minimise x + 2y, x + y ≥ 3, x ≤ 2, y ≤ 5: x = 2, y = 1, cost 4.
LinearProgram small() {
  LinearProgram program;
  const auto x = program.addColumn(1, 0, 2), y = program.addColumn(2, 0, 5);
  program.addRow({{x, 1}, {y, 1}}, 3, LinearProgram::kInfinity);
  return program;
}

TEST(LinearProgram, SumsTermsOfOneColumn) {
  LinearProgram program;
  const auto x = program.addColumn(0, 0, 1), y = program.addColumn(0, 0, 1);
  program.addRow({{y, 2}, {x, 1}, {y, 3}, {x, -1}}, 0, 1);
  EXPECT_EQ(program.column, std::vector<std::int32_t>{y});
  EXPECT_EQ(program.coefficient, std::vector<double>{5});
  EXPECT_EQ(program.rowActivity(0, {7, 2}), 10);
}

TEST(LinearProgram, SaysWhatSatisfiesIt) {
  LinearProgram program = small();
  EXPECT_TRUE(program.satisfied({2, 1}, 1e-9));
  EXPECT_FALSE(program.satisfied({2, 0.9}, 1e-9));  // the row
  EXPECT_FALSE(program.satisfied({2.1, 1}, 1e-9));  // a bound
  EXPECT_FALSE(program.satisfied({2}, 1e-9));
  EXPECT_TRUE(program.satisfied({1.5, 1.5}, 1e-9));
  program.integer[0] = 1;
  EXPECT_FALSE(program.satisfied({1.5, 1.5}, 1e-9));
}

TEST(LinearProgram, SurvivesItsBytes) {
  const LinearProgram program = small();
  const std::string bytes = program.toBytes();
  const LinearProgram again = LinearProgram::fromBytes(bytes);
  EXPECT_EQ(again.toBytes(), bytes);
  EXPECT_TRUE(again.satisfied({2, 1}, 1e-9));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(LinearProgram::fromBytes(bytes.substr(0, size)), std::runtime_error) << size;
  }
  EXPECT_THROW(LinearProgram::fromBytes(bytes + "x"), std::runtime_error);
  LinearProgram wrong = program;
  wrong.column[0] = 2;  // there are two
  EXPECT_THROW(LinearProgram::fromBytes(wrong.toBytes()), std::runtime_error);
}

TEST(SafeDualBound, IsTheOptimumForItsDuals) {
  // The dual 2 makes y's reduced cost 0 and x's -1, which x ≤ 2 takes: 2 · 3 - 1 · 2 = 4.
  EXPECT_NEAR(safeDualBound(small(), {2}), 4, 1e-9);
  EXPECT_LE(safeDualBound(small(), {2}), 4);
}

TEST(SafeDualBound, HoldsForAnyMultipliers) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> any(-5, 5);
  for (int i = 0; i < 1000; ++i) EXPECT_LE(safeDualBound(small(), {any(random)}), 4);
  EXPECT_LE(safeDualBound(small(), {std::nan("")}), 4);
}

TEST(SafeDualBound, IsNoneWithoutBounds) {
  LinearProgram program = small();
  program.upper[0] = LinearProgram::kInfinity;
  EXPECT_EQ(safeDualBound(program, {2}), -LinearProgram::kInfinity);  // x is worth -1 each
}

}  // namespace
}  // namespace ebbtide::scheduler
