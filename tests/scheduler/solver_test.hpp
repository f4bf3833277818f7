// Tests that run a solver of the `ortools` wheel: skipped where it is missing, and they say how to
// get it.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>

#include "solver/solver_wheel.hpp"

namespace ebbtide::scheduler {

class SolverTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      wheel_ = findSolverWheel({});
    } catch (const std::invalid_argument& missing) {
      GTEST_SKIP() << missing.what();
    }
  }

  SolverWheel wheel_;
};

}  // namespace ebbtide::scheduler
