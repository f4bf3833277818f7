#include "verify/audit_cache.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace ebbtide::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kProgram = 0xfedcba9876543210;
const AuditCache::Host kHost{"2.11.0", "MKL 2024.2", "AVX2", "", 4};

class AuditCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "audits-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // As another process would see it.
  AuditCache cache(const AuditCache::Host& host = kHost, bool asked_for = true) {
    return in(folder_, host, asked_for);
  }
  AuditCache in(const fs::path& folder, const AuditCache::Host& host, bool asked_for) {
    return {{folder.string(), asked_for}, host, [this](const std::string& text) {
              notes_.push_back(text);
            }};
  }
  bool knows(std::uint64_t place) {
    AuditCache reader = cache();
    reader.load();
    return reader.equal(kProgram, place);
  }
  // Of two programs, one with an op that is kept, and an op that differs: some 300 bytes.
  fs::path write() {
    AuditCache writer = cache();
    writer.addEqual(kProgram, {1, 2, 3});
    writer.addKept(kProgram, 4);
    writer.addEqual(7, {1});
    writer.addDiffers(5);
    writer.save();
    return writer.path();
  }
  static std::string contents(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void put(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
  }
  // Nothing of it is used, and one note says so.
  void expectUnused(AuditCache& reader, const std::string& what) {
    notes_.clear();
    reader.load();
    EXPECT_FALSE(reader.equal(kProgram, 1) || reader.kept(kProgram, 4) || reader.differs(5))
        << what;
    EXPECT_EQ(notes_.size(), 1U) << what;
  }
  // And what is found from then on takes its place.
  void expectIgnored(const std::string& what) {
    AuditCache reader = cache();
    expectUnused(reader, what);
    reader.addEqual(kProgram, {9});
    reader.save();
    ASSERT_EQ(notes_.size(), 1U) << what;
    EXPECT_NE(notes_[0].find("is not used"), std::string::npos) << notes_[0];
    EXPECT_TRUE(knows(9)) << what;
    EXPECT_FALSE(knows(1)) << what;
    EXPECT_EQ(notes_.size(), 1U) << what;
  }

  fs::path folder_;
  std::vector<std::string> notes_;
};

TEST_F(AuditCacheTest, RemembersWhatWasSaved) {
  write();
  AuditCache reader = cache();
  EXPECT_FALSE(reader.equal(kProgram, 1));  // before it is loaded
  reader.load();
  for (const std::uint64_t place : {1, 2, 3}) EXPECT_TRUE(reader.equal(kProgram, place));
  EXPECT_TRUE(reader.kept(kProgram, 4));
  EXPECT_TRUE(reader.equal(7, 1));
  EXPECT_TRUE(reader.differs(5));
  EXPECT_FALSE(reader.equal(kProgram, 4) || reader.equal(7, 2) || reader.kept(7, 4));
  EXPECT_FALSE(reader.differs(1));
  EXPECT_TRUE(notes_.empty());
}

TEST_F(AuditCacheTest, WhatIsNotKnownIsNeverTrusted) {
  // 0 stands for an op of which too little is known: neither kept in the file nor found in it.
  EXPECT_EQ(auditPlace(3, 0), 0U);
  EXPECT_NE(auditPlace(3, 1), auditPlace(4, 1));
  EXPECT_NE(auditPlace(3, 1), auditPlace(3, 2));
  AuditCache known = cache();
  known.addEqual(kProgram, {0});
  known.addKept(kProgram, 0);
  known.addDiffers(0);
  EXPECT_FALSE(known.equal(kProgram, 0) || known.kept(kProgram, 0) || known.differs(0));
}

TEST_F(AuditCacheTest, TheFileIsItsOwnersAlone) {
  struct stat status {};
  ASSERT_EQ(::stat(write().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  // It and its lock: nothing is left beside.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(AuditCacheTest, EachHostHasAFileOfItsOwn) {
  write();
  for (const AuditCache::Host& host :
       {AuditCache::Host{"2.12.0", "MKL 2024.2", "AVX2", "", 4},
        {"2.11.0", "MKL 2025.0", "AVX2", "", 4},
        {"2.11.0", "MKL 2024.2", "AVX512", "", 4},
        {"2.11.0", "MKL 2024.2", "AVX2", "", 8},
        {"2.11.0", "MKL 2024.2", "AVX2", "OMP_SCHEDULE=dynamic\n", 4}}) {
    AuditCache other = cache(host);
    other.load();
    EXPECT_FALSE(other.equal(kProgram, 1));
  }
  EXPECT_TRUE(notes_.empty());
}

TEST_F(AuditCacheTest, AFileOfAnotherHostIsIgnoredUnderThisName) {
  const fs::path path = write();
  std::string text = contents(path);
  text.replace(text.find("torch 2.11.0"), 12, "torch 2.10.0");
  put(path, text);
  expectIgnored("another torch");
}

TEST_F(AuditCacheTest, AProgramIsForgottenUntilItIsComparedAgain) {
  write();
  AuditCache earlier = cache();  // knows it still when it saves something else
  earlier.load();
  AuditCache writer = cache();
  writer.load();
  writer.forget(kProgram);
  EXPECT_FALSE(writer.equal(kProgram, 1) || writer.kept(kProgram, 4));
  writer.save();
  EXPECT_FALSE(knows(1));
  earlier.addEqual(8, {1});
  earlier.save();
  EXPECT_FALSE(knows(1));
  AuditCache third = cache();
  third.load();
  EXPECT_TRUE(third.equal(7, 1) && third.equal(8, 1));  // other programs are not concerned
  third.addEqual(kProgram, {2});
  third.save();
  EXPECT_TRUE(knows(2));
  EXPECT_FALSE(knows(1));
}

TEST_F(AuditCacheTest, WhereRanksDisagreeTheOpIsKept) {
  write();
  AuditCache other = cache();
  other.addKept(kProgram, 2);
  other.save();
  AuditCache reader = cache();
  reader.load();
  EXPECT_TRUE(reader.kept(kProgram, 2));
  EXPECT_FALSE(reader.equal(kProgram, 2));
  EXPECT_TRUE(reader.equal(kProgram, 1));
}

TEST_F(AuditCacheTest, AKeptPlaceIsTriedAgainOnceIn32Processes) {
  write();
  AuditCache rank = cache();  // found otherwise, as above
  rank.addEqual(kProgram, {4});
  rank.save();
  for (int process = 1; process <= 32; ++process) {
    AuditCache one = cache();
    one.load();
    EXPECT_TRUE(one.kept(kProgram, 4)) << process;
    one.countKeeping(kProgram);
    one.save();
  }
  AuditCache next = cache();
  next.load();
  EXPECT_FALSE(next.kept(kProgram, 4));
  EXPECT_FALSE(next.equal(kProgram, 4));
  EXPECT_TRUE(next.equal(kProgram, 1));
  next.addKept(kProgram, 4);  // it differs still
  next.save();
  AuditCache last = cache();
  last.load();
  EXPECT_TRUE(last.kept(kProgram, 4));
}

TEST_F(AuditCacheTest, EveryTruncationIsIgnored) {
  const std::string whole = contents(write());
  const fs::path path = cache().path();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put(path, whole.substr(0, length));
    expectIgnored("first " + std::to_string(length) + " bytes");
  }
}

TEST_F(AuditCacheTest, EveryFlippedBitIsSeen) {
  const std::string whole = contents(write());
  const fs::path path = cache().path();
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string text = whole;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    put(path, text);
    AuditCache reader = cache();
    expectUnused(reader, "bit " + std::to_string(bit));
  }
}

TEST_F(AuditCacheTest, DamageOfAnyKindIsIgnored) {
  const std::string whole = contents(write());
  const fs::path path = cache().path();
  std::mt19937 random(1);
  const auto below = [&random](std::size_t count) { return random() % count; };
  for (int round = 0; round < 500; ++round) {
    std::string text = whole;
    switch (round % 5) {
      case 0:  // some bytes are others
        for (int i = 0; i < 9; ++i) text[below(text.size())] = static_cast<char>(random());
        break;
      case 1:  // a stretch is missing
        text.erase(below(text.size()), 1 + below(40));
        break;
      case 2:  // a stretch comes twice
        text.insert(below(text.size()), text.substr(below(text.size()), 1 + below(40)));
        break;
      case 3:  // something follows
        text += text.substr(below(text.size()));
        break;
      default:  // none of ours
        text.assign(below(2000), '\0');
        for (char& c : text) c = static_cast<char>(random());
    }
    if (text == whole) continue;
    put(path, text);
    expectIgnored("round " + std::to_string(round));
  }
  put(path, whole + std::string(2 << 20, '\n'));
  expectIgnored("too large");
  put(path, whole);
  ::chmod(path.c_str(), 0620);
  expectIgnored("others may write");
}

TEST_F(AuditCacheTest, ALinkIsNotFollowed) {
  const std::string whole = contents(write());
  const fs::path path = cache().path();
  const fs::path target = folder_ / "target";
  fs::rename(path, target);
  fs::create_symlink(target, path);
  AuditCache reader = cache();
  reader.load();
  EXPECT_FALSE(reader.equal(kProgram, 1));
  reader.addEqual(kProgram, {9});
  reader.save();
  EXPECT_EQ(contents(target), whole);
  EXPECT_TRUE(fs::is_symlink(path));
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("symbolic link"), std::string::npos);
}

TEST_F(AuditCacheTest, WhatIsNoFileIsLeftAlone) {
  const fs::path path = cache().path();
  for (const bool pipe : {true, false}) {
    notes_.clear();
    if (pipe) {
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    } else {
      fs::create_directory(path);
    }
    AuditCache reader = cache();
    reader.load();
    reader.addEqual(kProgram, {9});
    reader.save();
    ASSERT_EQ(notes_.size(), 1U);
    EXPECT_NE(notes_[0].find("no plain file"), std::string::npos) << notes_[0];
    EXPECT_FALSE(fs::is_regular_file(path));
    fs::remove(path);
  }
}

TEST_F(AuditCacheTest, AnotherUsersFileIsLeftAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const fs::path path = write();
  const std::string whole = contents(path);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  AuditCache reader = cache();
  reader.load();
  EXPECT_FALSE(reader.equal(kProgram, 1));
  reader.addEqual(kProgram, {9});
  reader.save();
  EXPECT_EQ(contents(path), whole);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("another user"), std::string::npos);
}

TEST_F(AuditCacheTest, AFolderIsMadeAndOneThatCannotBeIsToldIfItWasAskedFor) {
  AuditCache made = in(folder_ / "a" / "b", kHost, false);
  made.addEqual(kProgram, {1});
  made.save();
  EXPECT_TRUE(fs::exists(made.path()));
  put(folder_ / "file", "");
  for (const bool asked_for : {false, true}) {
    notes_.clear();
    AuditCache nowhere = in(folder_ / "file" / "b", kHost, asked_for);
    nowhere.load();
    nowhere.addEqual(kProgram, {1});
    nowhere.save();
    nowhere.save();
    EXPECT_TRUE(nowhere.equal(kProgram, 1));  // in this process
    EXPECT_EQ(notes_.size(), asked_for ? 1U : 0U);
  }
}

// A verdict that cannot be taken back is not used. Root may write anywhere: as somebody else, then.
TEST_F(AuditCacheTest, AFolderThatMayOnlyBeReadIsNotUsed) {
  ::chmod(folder_.c_str(), 0755);
  for (const bool asked_for : {false, true}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      constexpr uid_t kSomebody = 12345;
      if (::geteuid() == 0 && (::chown(folder_.c_str(), kSomebody, kSomebody) != 0 ||
                               ::setegid(kSomebody) != 0 || ::seteuid(kSomebody) != 0)) {
        ::_exit(10);
      }
      write();
      if (!knows(1)) ::_exit(11);
      ::chmod(folder_.c_str(), 0555);
      AuditCache reader = cache(kHost, asked_for);
      reader.load();
      if (reader.equal(kProgram, 1) || reader.differs(5)) ::_exit(12);
      reader.forget(kProgram);
      reader.save();
      ::_exit(notes_.size() == (asked_for ? 1U : 0U) ? 0 : 13);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
    ::chmod(folder_.c_str(), 0755);
  }
}

// No byte may be written, as on a full disk: the file stays as it was, but for what is wrong in it.
TEST_F(AuditCacheTest, AFullDiskLeavesTheOldFileUnlessAProgramIsForgotten) {
  const fs::path path = write();
  const std::string whole = contents(path);
  for (const bool forgets : {false, true}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const rlimit none{0, 0};
      ::signal(SIGXFSZ, SIG_IGN);
      if (::setrlimit(RLIMIT_FSIZE, &none) != 0) ::_exit(10);
      AuditCache writer = cache();
      writer.load();
      writer.addEqual(kProgram, {9});
      if (forgets) writer.forget(kProgram);
      writer.save();
      ::_exit(notes_.size() == 1 ? 0 : 11);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
    EXPECT_EQ(fs::exists(path), !forgets);
    EXPECT_EQ(contents(path), forgets ? "" : whole);
    // The lock too; and nothing beside them.
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), forgets ? 1 : 2);
  }
}

TEST_F(AuditCacheTest, WritersAtTheSameTimeLoseNothing) {
  constexpr std::uint64_t kWriters = 8, kRounds = 25;
  std::vector<pid_t> children;
  for (std::uint64_t writer = 1; writer <= kWriters; ++writer) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      AuditCache own = cache();
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        own.load();
        own.addEqual(writer, {round});
        own.addEqual(kProgram, {100 * writer + round});
        own.save();
      }
      // One that had no turn for two seconds gave up, and said so; where all is written there is
      // nothing to do.
      for (int again = 0; again < 30; ++again) own.save();
      const bool well = notes_.empty() || (notes_.size() == 1 && notes_[0].ends_with("in use"));
      ::_exit(well ? 0 : 1);
    }
    children.push_back(child);
  }
  for (int i = 0; i < 200; ++i) {  // meanwhile
    AuditCache reader = cache();
    reader.load();
  }
  EXPECT_TRUE(notes_.empty());
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  AuditCache reader = cache();
  reader.load();
  for (std::uint64_t writer = 1; writer <= kWriters; ++writer) {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      EXPECT_TRUE(reader.equal(writer, round));
      EXPECT_TRUE(reader.equal(kProgram, 100 * writer + round));
    }
  }
}

TEST_F(AuditCacheTest, WhatALockHeldBackIsSavedLater) {
  AuditCache writer = cache();
  const int lock = ::open((writer.path() + ".lock").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  writer.addEqual(kProgram, {1});
  writer.save();  // gives up: whoever has the lock may never let go of it
  EXPECT_FALSE(knows(1));
  ::close(lock);
  writer.save();
  EXPECT_TRUE(knows(1));
}

// What is quoted of it is 200 bytes, beside the names of variable and reason.
TEST_F(AuditCacheTest, AnEndlessFolderIsNamedAndCut) {
  AuditCache endless = in("/tmp/" + std::string(6000, 'x') + "\n", kHost, true);
  endless.load();
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("EBBTIDE_AUDIT_CACHE"), std::string::npos) << notes_[0];
  EXPECT_LT(notes_[0].size(), 600U);
  EXPECT_EQ(notes_[0].find('\n'), std::string::npos);
}

TEST_F(AuditCacheTest, TheOldestProgramsMakeRoom) {
  // 1 MiB has room for 61,000 places of 17 bytes: of 100 programs of 1,000 places the last 61 or
  // so.
  AuditCache writer = cache();
  for (std::uint64_t program = 1; program <= 100; ++program) {
    std::vector<std::uint64_t> places(1000);
    for (std::uint64_t i = 0; i < places.size(); ++i) places[i] = auditPlace(i, program);
    writer.addEqual(program, places);
    writer.save();
  }
  EXPECT_LE(fs::file_size(writer.path()), std::uintmax_t{1} << 20);
  AuditCache reader = cache();
  reader.load();
  EXPECT_TRUE(notes_.empty());
  for (std::uint64_t program = 1; program <= 100; ++program) {
    if (program > 35 && program < 45) continue;
    EXPECT_EQ(reader.equal(program, auditPlace(999, program)), program >= 45) << program;
  }
}

}  // namespace
}  // namespace ebbtide::plugin
