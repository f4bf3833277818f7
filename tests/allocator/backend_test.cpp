// The host backend on its own.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "spy_backend.hpp"

namespace ebbtide::allocator::test {
namespace {

constexpr Bytes kHuge = 2 * kMiB;

bool startsOnHugePage(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kHuge == 0;
}

// The VmFlags line of the mapping that holds this address.
std::string flagsOf(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= wanted && wanted < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return "";
}

TEST(HostBackendTest, PagesAreZeroedAndWritable) {
  const auto backend = makeHostBackend();
  const Bytes bytes = 3 * backend->pageBytes();
  auto* pages = static_cast<char*>(backend->map(bytes));
  ASSERT_NE(pages, nullptr);
  EXPECT_EQ(pages[0], 0);
  EXPECT_EQ(pages[bytes - 1], 0);
  std::memset(pages, 1, static_cast<std::size_t>(bytes));
  backend->unmap(pages, bytes);
}

TEST(HostBackendTest, FourMebibytesAndMoreAskForHugePages) {
  const auto backend = makeHostBackend();
  for (const Bytes bytes : {2 * kHuge, 2 * kHuge + kPage, 5 * kHuge, 31 * kMiB}) {
    void* pages = backend->map(bytes);
    ASSERT_NE(pages, nullptr);
    EXPECT_TRUE(startsOnHugePage(pages)) << bytes;
    const std::string flags = flagsOf(pages);
    if (std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good()) {
      EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
    }
    backend->unmap(pages, bytes);
  }
}

TEST(HostBackendTest, ResizeKeepsThePagesAndTheAlignment) {
  const auto backend = makeHostBackend();
  Bytes bytes = kMiB;
  auto* pages = static_cast<char*>(backend->map(bytes));
  std::memset(pages, 7, static_cast<std::size_t>(bytes));
  // Grow below the huge size, into it, within it; shrink within it and out of it.
  for (const Bytes next : {2 * kMiB, 6 * kMiB, 64 * kMiB, 5 * kMiB, kMiB / 2}) {
    pages = static_cast<char*>(backend->resize(pages, bytes, next));
    ASSERT_NE(pages, nullptr) << next;
    EXPECT_TRUE(next < 2 * kHuge || startsOnHugePage(pages)) << next;
    EXPECT_EQ(pages[0], 7);
    EXPECT_EQ(pages[kMiB / 2 - 1], 7);
    pages[next - 1] = 1;
    bytes = next;
  }
  backend->unmap(pages, bytes);
}

TEST(HostBackendTest, GrowingBesideANeighbourMoves) {
  const auto backend = makeHostBackend();
  const Bytes bytes = 16 * kMiB;
  auto* first = static_cast<char*>(backend->map(bytes));
  auto* second = static_cast<char*>(backend->map(bytes));
  auto* third = static_cast<char*>(backend->map(bytes));
  second[0] = 2;
  second[bytes - 1] = 3;
  auto* moved = static_cast<char*>(backend->resize(second, bytes, 4 * bytes));
  ASSERT_NE(moved, nullptr);
  EXPECT_TRUE(startsOnHugePage(moved));
  EXPECT_EQ(moved[0], 2);
  EXPECT_EQ(moved[bytes - 1], 3);
  moved[4 * bytes - 1] = 4;
  first[bytes - 1] = third[0] = 5;  // the neighbours are still there
  backend->unmap(moved, 4 * bytes);
  backend->unmap(first, bytes);
  backend->unmap(third, bytes);
}

TEST(HostBackendTest, WhatTheSystemCannotGiveIsNull) {
  const auto backend = makeHostBackend();
  EXPECT_EQ(backend->map(Bytes{1} << 55), nullptr);
  void* pages = backend->map(kMiB);
  EXPECT_EQ(backend->resize(pages, kMiB, Bytes{1} << 55), nullptr);
  static_cast<char*>(pages)[kMiB - 1] = 1;  // intact
  backend->unmap(pages, kMiB);
}

}  // namespace
}  // namespace ebbtide::allocator::test
