// The host backend on its own.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
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

std::size_t size(Bytes bytes) {
  return static_cast<std::size_t>(bytes);
}

void* grow(Backend& backend, void* pages, Bytes bytes, Bytes next) {
  const PageRange piece{pages, bytes};
  return backend.gather({&piece, 1}, next);
}

TEST(HostBackendTest, GrowingKeepsThePagesAndTheAlignment) {
  const auto backend = makeHostBackend();
  Bytes bytes = kMiB;
  auto* pages = static_cast<char*>(backend->map(bytes));
  std::memset(pages, 7, size(bytes));
  // Below the huge size, into it, within it.
  for (const Bytes next : {2 * kMiB, 6 * kMiB, 64 * kMiB}) {
    pages = static_cast<char*>(grow(*backend, pages, bytes, next));
    ASSERT_NE(pages, nullptr) << next;
    EXPECT_TRUE(next < 2 * kHuge || startsOnHugePage(pages)) << next;
    EXPECT_EQ(pages[0], 7);
    EXPECT_EQ(pages[kMiB - 1], 7);
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
  auto* moved = static_cast<char*>(grow(*backend, second, bytes, 4 * bytes));
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

// The kernel counts a fault for every page that it provides, none for one that moves.
std::int64_t minorFaults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

//   first   |a|b|c|d|    second |e|f|      target |b|e|d|fresh|
TEST(HostBackendTest, GatheredPiecesKeepTheirPagesInOrder) {
  const auto backend = makeHostBackend();
  for (const Bytes unit : {kPage, 16 * kPage, kMiB, 3 * kMiB}) {
    auto* first = static_cast<char*>(backend->map(4 * unit));
    auto* second = static_cast<char*>(backend->map(2 * unit));
    for (int i = 0; i < 4; ++i) std::memset(first + i * unit, 'a' + i, size(unit));
    for (int i = 0; i < 2; ++i) std::memset(second + i * unit, 'e' + i, size(unit));
    const std::array<PageRange, 3> pieces{PageRange{first + unit, unit}, PageRange{second, unit},
                                          PageRange{first + 3 * unit, unit}};
    auto* target = static_cast<char*>(backend->gather(pieces, 4 * unit));
    ASSERT_NE(target, nullptr) << unit;
    EXPECT_TRUE(4 * unit < 2 * kHuge || startsOnHugePage(target)) << unit;
    [[maybe_unused]] const std::int64_t faults_before = minorFaults();
    int wrong = 0;
    for (Bytes at = 0; at < 3 * unit; ++at) wrong += target[at] != "bed"[at / unit];
    EXPECT_EQ(wrong, 0) << unit;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadows fault too
    EXPECT_LT(minorFaults() - faults_before, 16) << unit;            // 2304 pages in the last round
#endif
    EXPECT_EQ(target[3 * unit], 0);  // fresh
    target[4 * unit - 1] = 1;
    EXPECT_EQ(first[0], 'a');
    EXPECT_EQ(first[2 * unit], 'c');
    EXPECT_EQ(second[unit], 'f');
    backend->unmap(first, unit);
    backend->unmap(first + 2 * unit, unit);
    backend->unmap(second + unit, unit);
    backend->unmap(target, 4 * unit);
  }
}

TEST(HostBackendTest, APartCanBeUnmapped) {
  const auto backend = makeHostBackend();
  auto* pages = static_cast<char*>(backend->map(3 * kMiB));
  std::memset(pages, 7, size(3 * kMiB));
  backend->unmap(pages + kMiB, kMiB);
  EXPECT_EQ(flagsOf(pages + kMiB + kMiB / 2), "");
  EXPECT_EQ(pages[kMiB - 1], 7);
  EXPECT_EQ(pages[2 * kMiB], 7);
  backend->unmap(pages, kMiB);
  backend->unmap(pages + 2 * kMiB, kMiB);
}

TEST(HostBackendTest, WhatTheSystemCannotGiveIsNullAndThePiecesAreGone) {
  const auto backend = makeHostBackend();
  EXPECT_EQ(backend->map(Bytes{1} << 55), nullptr);
  void* pages = backend->map(kMiB);
  EXPECT_EQ(grow(*backend, pages, kMiB, Bytes{1} << 55), nullptr);
  EXPECT_EQ(flagsOf(pages), "");
}

// The second piece is not mapped, as if a seam had been missed: whether it moved or not, no piece
// is left behind.
TEST(HostBackendTest, AFailureHalfwayLeavesNoPiece) {
  const auto backend = makeHostBackend();
  auto* first = static_cast<char*>(backend->map(kMiB));
  auto* hole = static_cast<char*>(backend->map(kMiB));
  auto* third = static_cast<char*>(backend->map(kMiB));
  backend->unmap(hole, kMiB);
  const std::array<PageRange, 3> pieces{PageRange{first, kMiB}, PageRange{hole, kMiB},
                                        PageRange{third, kMiB}};
  EXPECT_EQ(backend->gather(pieces, 3 * kMiB), nullptr);
  EXPECT_EQ(flagsOf(first), "");
  EXPECT_EQ(flagsOf(third), "");
}

}  // namespace
}  // namespace ebbtide::allocator::test
