#include "memory/freeing_lock.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

// Says how many of its kind are held, and how often one was taken.
struct SeenMutex {
  void lock() { ++held, ++taken; }
  bool try_lock() {
    if (refuses) return false;
    lock();
    return true;
  }
  void unlock() { --held; }

  static inline int held = 0, taken = 0;
  static inline bool refuses = false;
};

// A storage that notes its name and how many locks were held when it was freed.
struct Freed {
  std::string name;
  int locks;
};
using Storage = std::shared_ptr<std::string>;
using Lock = FreeingLock<Storage, SeenMutex>;

class FreeingLocks : public testing::Test {
 protected:
  FreeingLocks() { SeenMutex::held = SeenMutex::taken = 0, SeenMutex::refuses = false; }

  Storage make(const char* name) {
    return {new std::string(name), [this](const std::string* gone) {
              freed_.push_back({*gone, SeenMutex::held});
              delete gone;
            }};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const Freed& one : freed_) found.push_back(one.name);
    return found;
  }

  std::vector<Freed> freed_;
  Lock lock_{[](const Storage& storage) { return storage->starts_with("python's"); }};
};

TEST_F(FreeingLocks, WhatIsGivenUpIsFreedAfterTheLock) {
  {
    const Lock::Freeing held(lock_);
    held.giveUp(make("ours"));
    EXPECT_EQ(SeenMutex::held, 1);
    EXPECT_TRUE(freed_.empty());
  }
  ASSERT_EQ(names(), (std::vector<std::string>{"ours"}));
  EXPECT_EQ(freed_[0].locks, 0);
}

TEST_F(FreeingLocks, SeveralAreFreedInTheirOrder) {
  for (int round = 0; round < 2; ++round) {
    const Lock::Freeing held(lock_);
    held.giveUp(make("first"));
    held.giveUp(make("second"));
    held.giveUp(make("third"));
  }
  EXPECT_EQ(names(),
            (std::vector<std::string>{"first", "second", "third", "first", "second", "third"}));
  for (const Freed& one : freed_) EXPECT_EQ(one.locks, 0);
}

// Each kind as the first and as a later one.
TEST_F(FreeingLocks, OfSeveralEachWaitsOrNotByItself) {
  {
    const Lock::Restoring restoring(lock_);
    {
      const Lock::Freeing held(lock_);
      held.giveUp(make("ours 1"));
      held.giveUp(make("python's 1"));
      held.giveUp(make("ours 2"));
    }
    {
      const Lock::Freeing held(lock_);
      held.giveUp(make("python's 2"));
      held.giveUp(make("ours 3"));
    }
    EXPECT_EQ(names(), (std::vector<std::string>{"ours 1", "ours 2", "ours 3"}));
  }
  ASSERT_EQ(freed_.size(), 5u);
  for (std::size_t i = 3; i < 5; ++i) {
    EXPECT_TRUE(freed_[i].name.starts_with("python's")) << freed_[i].name;
    EXPECT_EQ(freed_[i].locks, 0);
  }
}

TEST_F(FreeingLocks, AlsoWhenAnErrorLeaves) {
  const auto fail = [this] {
    const Lock::Freeing held(lock_);
    held.giveUp(make("ours"));
    throw std::runtime_error("");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  ASSERT_EQ(freed_.size(), 1u);
  EXPECT_EQ(freed_[0].locks, 0);
}

TEST_F(FreeingLocks, WhatSomebodyElseHoldsStays) {
  const Storage shared = make("shared");
  {
    const Lock::Freeing held(lock_);
    held.giveUp(shared);
    held.giveUp(nullptr);
  }
  EXPECT_TRUE(freed_.empty());
}

// A restore: what needs Python's lock waits for its end, and no longer: then neither lock is held.
TEST_F(FreeingLocks, WhatWaitsIsFreedAfterTheRestore) {
  {
    const Lock::Restoring restoring(lock_);
    EXPECT_TRUE(lock_.restoresHere());
    {
      const Lock::Freeing held(lock_);
      EXPECT_EQ(SeenMutex::held, 2);
      held.giveUp(make("python's"));
      held.giveUp(make("ours"));
    }
    ASSERT_EQ(names(), (std::vector<std::string>{"ours"}));
    EXPECT_EQ(freed_[0].locks, 1);  // the restore's
    { const Lock::Freeing again(lock_); }
    EXPECT_EQ(freed_.size(), 1u);
  }
  ASSERT_EQ(names(), (std::vector<std::string>{"ours", "python's"}));
  EXPECT_EQ(freed_[1].locks, 0);
  EXPECT_FALSE(lock_.restoresHere());
}

// One for the restore, one for what is freed at once; the end takes none more.
TEST_F(FreeingLocks, ARestoreForWhichNothingWaitedTakesNoLockAtItsEnd) {
  {
    const Lock::Restoring restoring(lock_);
    const Lock::Freeing held(lock_);
    held.giveUp(make("ours"));
  }
  EXPECT_EQ(SeenMutex::taken, 2);
  EXPECT_EQ(names(), (std::vector<std::string>{"ours"}));
}

// Of the first restore one waits; of the second none.
TEST_F(FreeingLocks, WhatWaitedForOneRestoreIsNoneOfTheNext) {
  for (const char* name : {"python's", "ours"}) {
    const Lock::Restoring restoring(lock_);
    const Lock::Freeing held(lock_);
    held.giveUp(make(name));
  }
  EXPECT_EQ(SeenMutex::taken, 3 + 2);
  EXPECT_EQ(names(), (std::vector<std::string>{"python's", "ours"}));
}

// Of another thread nothing waits meanwhile.
TEST_F(FreeingLocks, OnlyWhatItsOwnThreadGivesUpWaits) {
  const Lock::Restoring restoring(lock_);
  std::thread([this] {
    EXPECT_FALSE(lock_.restoresHere());
    const Lock::Freeing held(lock_);
    held.giveUp(make("python's"));
  }).join();
  EXPECT_EQ(names(), (std::vector<std::string>{"python's"}));
}

// Outside of a restore nothing waits.
TEST_F(FreeingLocks, ElseNothingWaits) {
  {
    const Lock::Freeing held(lock_);
    held.giveUp(make("python's"));
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"python's"}));
}

TEST_F(FreeingLocks, WhoOnlyHoldsItFreesNothing) {
  std::optional<Lock::Restoring> restoring(std::in_place, lock_);
  {
    const Lock::Freeing held(lock_);
    held.giveUp(make("python's"));
  }
  { const Lock::Held held(lock_); }
  EXPECT_TRUE(freed_.empty());
  restoring.reset();
  EXPECT_EQ(freed_.size(), 1u);
}

TEST_F(FreeingLocks, ARestoreThatIsRefusedLocksNothing) {
  SeenMutex::refuses = true;
  {
    const Lock::Restoring restoring(lock_, std::try_to_lock);
    EXPECT_FALSE(restoring.held());
    EXPECT_FALSE(lock_.restoresHere());
    EXPECT_EQ(SeenMutex::held, 0);
  }
  SeenMutex::refuses = false;
  const Lock::Restoring restoring(lock_, std::try_to_lock);
  EXPECT_TRUE(restoring.held());
}

}  // namespace
}  // namespace ebbtide::plugin
