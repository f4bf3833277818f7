#include "memory/stored_value.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;

struct IllegalTransition : std::logic_error {
  using std::logic_error::logic_error;
};

// Storages whose contents are a number.
struct Numbers {
  using Strong = std::shared_ptr<int>;
  using Weak = std::weak_ptr<int>;

  static Weak none() { return {}; }
  static Weak weakly(const Strong& storage) { return storage; }
  static Strong lock(const Weak& storage) { return storage.lock(); }
  static bool expired(const Weak& storage) { return storage.expired(); }
  static bool same(const Strong& one, const Strong& other) { return one == other; }
  static void refused(const char* transition) { throw IllegalTransition(transition); }
};

// As a training has it: the transition is said, and no error.
struct Quiet : Numbers {
  static inline std::vector<std::string> said;
  static void refused(const char* transition) { said.emplace_back(transition); }
};

using Value = StoredValue<Numbers>;

class StoredValueTest : public testing::Test {
 protected:
  StoredValueTest() { value_.begin(program_); }

  void spill() {
    value_.addSlot({.offset = 1});
    value_.take();
    program_.reset();
  }
  void overwriteInUse() { value_.overwrite(true); }

  std::shared_ptr<int> program_ = std::make_shared<int>(7);
  Value value_;
};

TEST_F(StoredValueTest, IsTheProgramsAtFirst) {
  EXPECT_EQ(value_.state(), ValueState::kWeak);
  EXPECT_EQ(value_.storage(), program_);
  program_.reset();
  EXPECT_EQ(value_.state(), ValueState::kDropped);
  EXPECT_EQ(value_.storage(), nullptr);
}

TEST_F(StoredValueTest, WhatIsHeldLivesUntilItIsReleased) {
  value_.hold(program_);
  const std::weak_ptr<int> seen = std::exchange(program_, nullptr);
  EXPECT_EQ(value_.state(), ValueState::kHeld);
  std::shared_ptr<int> last = value_.release();
  EXPECT_EQ(value_.state(), ValueState::kWeak);  // by what the caller has, who frees it
  EXPECT_EQ(last.use_count(), 1);
  last.reset();
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(value_.release(), nullptr);  // again is no error
}

TEST_F(StoredValueTest, WhatIsGivenAwayIsHeldByNobodyElse) {
  value_.hold(std::move(program_));
  EXPECT_EQ(value_.held().use_count(), 1);
  value_.hold(value_.storage());  // the same once more
  EXPECT_EQ(value_.held().use_count(), 1);
}

TEST_F(StoredValueTest, WhatLivesIsHeld) {
  value_.holdIfAlive();
  EXPECT_EQ(value_.held(), program_);
  value_.release();
  program_.reset();
  value_.holdIfAlive();
  EXPECT_EQ(value_.state(), ValueState::kDropped);
}

TEST_F(StoredValueTest, IsAwaitedUntilTheProgramLetsGo) {
  EXPECT_TRUE(value_.awaitLetGo());
  EXPECT_FALSE(value_.awaitLetGo());  // it is
  EXPECT_EQ(value_.state(), ValueState::kAwaited);
  EXPECT_TRUE(value_.isLate());
  value_.endAwait();
  EXPECT_EQ(value_.state(), ValueState::kHeld);
  EXPECT_FALSE(value_.isLate());
}

TEST_F(StoredValueTest, NothingIsAwaitedThatIsGone) {
  program_.reset();
  EXPECT_FALSE(value_.awaitLetGo());
  EXPECT_FALSE(value_.isLate());
}

// Memory was short before anybody looked whether the program had let go.
TEST_F(StoredValueTest, WhatIsTakenWhileItIsAwaitedIsLateStill) {
  value_.awaitLetGo();
  spill();
  EXPECT_EQ(value_.state(), ValueState::kOnHost);
  EXPECT_FALSE(value_.awaited());
  EXPECT_TRUE(value_.isLate());
  value_.endAwait();
  EXPECT_FALSE(value_.isLate());
  EXPECT_EQ(value_.held(), nullptr);
}

TEST_F(StoredValueTest, ComesBackFromTheHost) {
  value_.hold(program_);
  spill();
  const auto fetched = std::make_shared<int>(7);
  EXPECT_TRUE(value_.replace(fetched));
  EXPECT_EQ(value_.state(), ValueState::kHeld);
  EXPECT_TRUE(value_.replaced());
  EXPECT_FALSE(value_.noteLetGo());  // that was noted with it
  EXPECT_FALSE(value_.servesLater());
  EXPECT_TRUE(value_.keepSlot());
  EXPECT_TRUE(value_.servesLater());
  value_.release();
  EXPECT_EQ(value_.state(), ValueState::kWeak);
  EXPECT_EQ(value_.takeSlot()->offset, 1);
  EXPECT_FALSE(value_.servesLater());
  EXPECT_FALSE(value_.takeSlot().has_value());
}

TEST_F(StoredValueTest, ComesBackFromItsBitsAfterTheHost) {
  const auto bits = std::make_shared<int>(1);
  EXPECT_EQ(value_.setBits({.word_bytes = 4}, bits), nullptr);
  EXPECT_EQ(value_.state(), ValueState::kWeak);  // the copy is quicker
  program_.reset();
  EXPECT_EQ(value_.state(), ValueState::kEncoded);
  value_.addSlot({.offset = 1});
  EXPECT_EQ(value_.state(), ValueState::kOnHost);
  value_.takeSlot();
  EXPECT_EQ(value_.setBits({.word_bytes = 8}, std::make_shared<int>(2)), bits);
  EXPECT_EQ(value_.code()->word_bytes, 8);
  EXPECT_EQ(*value_.takeBits(), 2);
  EXPECT_EQ(value_.state(), ValueState::kDropped);
}

TEST_F(StoredValueTest, WhatNobodyUsesGoesWhenItIsWrittenOver) {
  value_.hold(program_);
  EXPECT_EQ(value_.overwrite(false), program_);
  EXPECT_TRUE(value_.overwritten());
  EXPECT_FALSE(value_.stale());
  EXPECT_FALSE(value_.kept());
  EXPECT_EQ(value_.state(), ValueState::kDropped);        // what the program has is another value
  EXPECT_TRUE(value_.replace(std::make_shared<int>(6)));  // a replay gives what was there
  EXPECT_EQ(value_.state(), ValueState::kHeld);
}

TEST_F(StoredValueTest, WhatIsUsedStaysForItsUsesAlone) {
  EXPECT_EQ(value_.overwrite(true), nullptr);
  EXPECT_EQ(value_.state(), ValueState::kStale);
  EXPECT_TRUE(value_.kept());
  EXPECT_EQ(value_.held(), program_);
}

TEST_F(StoredValueTest, ItsUsesGoOnToWhatIsThereNow) {
  overwriteInUse();
  EXPECT_EQ(value_.passOn(3), program_);
  EXPECT_FALSE(value_.stale());
  EXPECT_TRUE(value_.overwritten());
  EXPECT_EQ(value_.successor(), 3);
  EXPECT_TRUE(value_.passFurther(5));
  EXPECT_EQ(value_.successor(), 5);
  EXPECT_EQ(value_.state(), ValueState::kDropped);
}

TEST_F(StoredValueTest, WhatWasWrittenUnseenIsForItsUses) {
  value_.awaitLetGo();
  value_.endAwait();
  EXPECT_TRUE(value_.keepWritten());
  EXPECT_EQ(value_.state(), ValueState::kStale);
  EXPECT_FALSE(value_.overwritten());
  value_.overwrite(false);
  EXPECT_TRUE(value_.stale());  // whoever reads it now would read what was written unseen
  EXPECT_TRUE(value_.overwritten());
}

TEST_F(StoredValueTest, TheBlockThatWasWrittenUnseenIsAdopted) {
  program_.reset();
  auto block = std::make_shared<int>(8);
  EXPECT_TRUE(value_.adoptWritten(std::move(block)));
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(*value_.held(), 8);
  EXPECT_EQ(value_.state(), ValueState::kStale);
  EXPECT_TRUE(value_.kept());
}

TEST_F(StoredValueTest, WhatAReplayMayWriteIsFoundNoMore) {
  value_.hold(program_);
  EXPECT_EQ(value_.handOver(), program_);
  EXPECT_EQ(value_.state(), ValueState::kDropped);
}

TEST_F(StoredValueTest, TheProgramLetsGoOnce) {
  EXPECT_TRUE(value_.noteLetGo());
  EXPECT_FALSE(value_.noteLetGo());
}

// ---------------------------------------------------------------------------------------------
// out of order

using Transition = std::function<void(Value&)>;

// Nothing but kept() is another one.
void expectRefused(Value& value, const Transition& transition) {
  const auto looks = [&value] {
    return std::tuple(value.state(), value.held(), value.storage(), value.bits(),
                      value.slot().has_value(), value.isLate(), value.stale(), value.overwritten(),
                      value.replaced(), value.servesLater(), value.successor());
  };
  const auto before = looks();
  EXPECT_THROW(transition(value), std::logic_error);
  EXPECT_EQ(looks(), before);
  EXPECT_TRUE(value.kept());
}

TEST_F(StoredValueTest, NothingIsNotHeld) {
  expectRefused(value_, [](Value& value) { value.hold(std::shared_ptr<int>()); });
  expectRefused(value_, [](Value& value) { value.replace(nullptr); });
  expectRefused(value_, [](Value& value) { value.take(); });
  expectRefused(value_, [](Value& value) { value.handOver(); });
  expectRefused(value_, [](Value& value) { value.keepWritten(); });
}

TEST_F(StoredValueTest, OneStorageIsHeld) {
  value_.hold(program_);
  const auto other = std::make_shared<int>(9);
  expectRefused(value_, [&](Value& value) { value.hold(other); });
  expectRefused(value_, [&](Value& value) { value.replace(other); });
  auto block = other;
  expectRefused(value_, [&](Value& value) { value.adoptWritten(std::move(block)); });
  EXPECT_EQ(block, other);                  // the caller's still
  EXPECT_TRUE(value_.hold(value_.held()));  // the same is none too many
}

TEST_F(StoredValueTest, AValueIsWrittenOverOnce) {
  overwriteInUse();
  expectRefused(value_, [](Value& value) { value.overwrite(true); });
  expectRefused(value_, [](Value& value) { value.keepWritten(); });
  value_.release();
  auto block = std::make_shared<int>(8);
  expectRefused(value_, [&](Value& value) { value.adoptWritten(std::move(block)); });
}

TEST_F(StoredValueTest, UsesGoOnFromWhatWasWrittenOverInUse) {
  expectRefused(value_, [](Value& value) { value.passOn(1); });
  expectRefused(value_, [](Value& value) { value.passFurther(1); });
  value_.overwrite(false);
  expectRefused(value_, [](Value& value) { value.passOn(1); });
}

TEST_F(StoredValueTest, UsesGoOnOnce) {
  overwriteInUse();
  value_.passOn(1);
  expectRefused(value_, [](Value& value) { value.passOn(2); });
}

TEST_F(StoredValueTest, AValueHasOneSlot) {
  expectRefused(value_, [](Value& value) { value.keepSlot(); });
  value_.addSlot({.offset = 1});
  expectRefused(value_, [](Value& value) { value.addSlot({.offset = 2}); });
  EXPECT_EQ(value_.slot()->offset, 1);
}

// In a training there is no error: the value stays, and what it has is kept.
TEST(StoredValue, WhereRefusalsAreQuietTheValueIsKept) {
  StoredValue<Quiet> value;
  const auto storage = std::make_shared<int>(7);
  value.begin(storage);
  value.hold(storage);
  EXPECT_FALSE(value.replace(std::make_shared<int>(9)));
  EXPECT_EQ(value.held(), storage);
  EXPECT_TRUE(value.kept());
  value.release();
  EXPECT_EQ(value.take(), nullptr);
  EXPECT_EQ(Quiet::said, (std::vector<std::string>{"replace", "take"}));
}

// ---------------------------------------------------------------------------------------------
// in any order

// The same value as loose flags, each transition written out: what the class must be equal to.
struct Flags {
  std::weak_ptr<int> copy;
  std::shared_ptr<int> held, bits;
  bool slot = false, also_on_host = false, late = false, kept = false, stale = false;
  bool overwritten = false, replaced = false, dead = false;
  int successor = kNone;

  std::shared_ptr<int> storage() const { return held ? held : copy.lock(); }
  void giveUp() { held.reset(), late = false; }
  void replace(const std::shared_ptr<int>& storage) {
    held = storage, copy = storage;
    late = false, replaced = dead = true;
  }
  void overwrite(bool in_use) {
    overwritten = true;
    if (in_use) {
      if (!held) held = copy.lock();
      stale = kept = true;
    } else {
      giveUp();
    }
    copy.reset();
  }
};

// A program, a plan and a shortage, at random: whatever is in order is done as the flags do it.
class RandomLife {
 public:
  explicit RandomLife(unsigned seed) : random_(seed) {
    value_.begin(program_);
    flags_.copy = program_;
  }

  void step() {
    switch (random_() % 17) {
      case 0:
        return program_.reset();
      case 1:
        return hold();
      case 2:
        return value_.release(), flags_.giveUp();
      case 3:
        return awaitLetGo();
      case 4:
        return value_.endAwait(), void(flags_.late = false);
      case 5:
        return take();
      case 6:
        return handOver();
      case 7:
        return replace();
      case 8:
        return noteLetGo();
      case 9:
        return overwrite();
      case 10:
        return passOn();
      case 11:
        return keepWritten();
      case 12:
        return adoptWritten();
      case 13:
        return addSlot();
      case 14:
        return keepSlot();
      case 15:
        return void(value_.takeSlot()), void(flags_.slot = flags_.also_on_host = false);
      default:
        return bits();
    }
  }

  void compare() const {
    EXPECT_EQ(value_.held(), flags_.held);
    EXPECT_EQ(value_.storage(), flags_.storage());
    EXPECT_EQ(value_.copy(), flags_.copy.lock());
    EXPECT_EQ(value_.bits(), flags_.bits);
    EXPECT_EQ(value_.slot().has_value(), flags_.slot);
    EXPECT_EQ(value_.servesLater(), flags_.also_on_host);
    EXPECT_EQ(value_.isLate(), flags_.late);
    EXPECT_EQ(value_.awaited(), flags_.late && flags_.held);
    EXPECT_EQ(value_.kept(), flags_.kept);
    EXPECT_EQ(value_.stale(), flags_.stale);
    EXPECT_EQ(value_.overwritten(), flags_.overwritten);
    EXPECT_EQ(value_.replaced(), flags_.replaced);
    EXPECT_EQ(value_.successor(), flags_.successor);
    const ValueState expected = flags_.held && flags_.stale  ? ValueState::kStale
                                : flags_.held && flags_.late ? ValueState::kAwaited
                                : flags_.held                ? ValueState::kHeld
                                : !flags_.copy.expired()     ? ValueState::kWeak
                                : flags_.slot                ? ValueState::kOnHost
                                : flags_.bits                ? ValueState::kEncoded
                                                             : ValueState::kDropped;
    EXPECT_EQ(value_.state(), expected);
  }

 private:
  bool coin() { return random_() % 2 == 0; }
  void hold() {
    const auto storage = flags_.storage();
    if (!storage) return;
    value_.hold(storage);
    flags_.held = storage;
  }
  void awaitLetGo() {
    flags_.held = flags_.storage();
    const bool begins = flags_.held && !std::exchange(flags_.late, true);
    EXPECT_EQ(value_.awaitLetGo(), begins);
  }
  void take() {
    if (!flags_.held) return;
    value_.take();
    flags_.held.reset();
  }
  void handOver() {
    if (!flags_.held) return;
    value_.handOver();
    flags_.held.reset(), flags_.copy.reset();
  }
  void replace() {
    if (flags_.held) return;
    const auto storage = std::make_shared<int>(0);
    value_.replace(storage);
    flags_.replace(storage);
  }
  void noteLetGo() { EXPECT_EQ(value_.noteLetGo(), !std::exchange(flags_.dead, true)); }
  void overwrite() {
    if (flags_.overwritten) return;
    const bool in_use = coin();
    value_.overwrite(in_use);
    flags_.overwrite(in_use);
  }
  void passOn() {
    if (!flags_.stale || !flags_.overwritten) return;
    value_.passOn(4);
    flags_.successor = 4;
    flags_.stale = false;
    flags_.giveUp();
  }
  void keepWritten() {
    if (!flags_.held || flags_.overwritten) return;
    value_.keepWritten();
    flags_.kept = flags_.stale = true;
  }
  void adoptWritten() {
    if (flags_.held || flags_.overwritten) return;
    auto block = std::make_shared<int>(0);
    flags_.held = block;
    flags_.kept = flags_.stale = true;
    value_.adoptWritten(std::move(block));
  }
  void addSlot() {
    if (std::exchange(flags_.slot, true)) return;
    value_.addSlot({});
  }
  void keepSlot() {
    if (!flags_.slot) return;
    value_.keepSlot();
    flags_.also_on_host = true;
  }
  void bits() {
    if (coin()) {
      flags_.bits = std::make_shared<int>(0);
      value_.setBits({}, flags_.bits);
    } else {
      flags_.bits.reset();
      value_.takeBits();
    }
  }

  std::mt19937 random_;
  std::shared_ptr<int> program_ = std::make_shared<int>(0);
  Value value_;
  Flags flags_;
};

TEST(StoredValue, InAnyOrderItIsWhatItsFlagsWouldBe) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomLife life(seed);
    for (int step = 0; step < 60; ++step) {
      ASSERT_NO_THROW(life.step());
      life.compare();
      ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace ebbtide::plugin
