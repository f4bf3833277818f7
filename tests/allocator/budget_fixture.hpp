// The stack of a test of the budget: sound at its end.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "stack.hpp"

namespace ebbtide::allocator::test {

constexpr Stream kOne{1}, kTwo{2};
constexpr Bytes kChunk = 64 * kKiB;  // 1,024 grains of 64

class BudgetTest : public testing::Test {
 protected:
  ~BudgetTest() override {
    stack_.spy().on_map = nullptr;
    stack_.spy().on_unmap = nullptr;
    stack_.expectSound();
  }

  void* allocate(Bytes bytes, Stream stream = Stream::kDefault) {
    return stack_->allocate(size(bytes), stream);
  }
  Statistics stats() { return stack_.memory().statistics(); }
  void freeAll(const std::vector<void*>& blocks) {
    for (void* block : blocks) stack_->deallocate(block);
  }

  Stack stack_;
};

}  // namespace ebbtide::allocator::test
