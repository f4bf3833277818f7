// CachingResource: allocate and free under a budget that is a ledger of mapped bytes.
//
// Ledger: every byte mapped from the backend counts, live or cached. It is debited before mapping
// and refunded when mapping fails, so mapped_bytes <= budget_bytes holds at every instant unless an
// overrun was allowed, which is counted.
//
//   request ─ small ─► size-class slab ────────────────────────────────► block
//           └ large ─► cached block of the same size ───────────────────► block
//                      └ miss: does budget - mapped suffice? ─ map ─────► block
//                        └ no: cut a larger one, or join neighbours ────► block
//                          └ none: gather the pages of several ─────────► block
//                            └ too few: reclaim(need) ─ retry while it makes progress
//                              └ no progress: overrun allowed? map and count : nullptr
//
// So cached pages change size without going back to the system, which would zero them again: cuts
// and joins are bookkeeping, gathering moves page-table entries.
//
// Thread rule: every function may be called from any thread. No lock is held while the backend, the
// reclaimer or the observer runs. Reclaimers may call deallocate(), and allocate() too: a nested
// call never re-enters the reclaimer. One thread reclaims at a time; others that are short wait for
// it. So a reclaimer must wait neither for a lock that a caller of allocate() may hold, nor for
// another thread's allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ebbtide::allocator {

using Bytes = std::int64_t;

inline constexpr Bytes kUnlimited = INT64_MAX;
inline constexpr std::size_t kAlignment =
    64;  // torch's CPU kernels expect it (c10/core/alignment.h)

struct PageRange {
  void* begin;
  Bytes bytes;
};

// Where pages come from. All sizes are multiples of pageBytes(). A range need not stay what map()
// returned: parts of it, and neighbours as one, are unmapped too.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Bytes pageBytes() const noexcept = 0;
  // nullptr when the system refuses.
  virtual void* map(Bytes bytes) noexcept = 0;
  virtual void unmap(void* address, Bytes bytes) noexcept = 0;
  // Moves the pages of the pieces, in their order, to the front of one range of `bytes`, and adds
  // fresh pages where they are fewer; contents undefined. At least one piece; each lies within what
  // one map(), one piece, or the fresh pages of one gather() made. nullptr when it cannot: the
  // pieces are unmapped then.
  virtual void* gather(std::span<const PageRange> pieces, Bytes bytes) noexcept = 0;
};

// Asked for bytes when the budget is short; need_bytes is the shortfall, all room and cache
// counted. Returns how many bytes it freed through deallocate(), for its own statistics: the ledger
// decides whether a call made progress, and an allocation ends after the first call that made none,
// or after eight.
class Reclaimer {
 public:
  virtual ~Reclaimer() = default;
  virtual Bytes reclaim(Bytes need_bytes) noexcept = 0;
};

// Told of every block, on the thread that allocates or frees it; for one block in order. Must be
// quick. block_bytes is what blockBytes() returns.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void onAllocate(const void* block, Bytes block_bytes) noexcept = 0;
  virtual void onFree(const void* block, Bytes block_bytes) noexcept = 0;
};

struct Statistics {
  Bytes budget_bytes = kUnlimited;
  Bytes allocated_bytes = 0;       // live blocks
  Bytes allocated_peak_bytes = 0;  // since the last resetPeaks()
  Bytes mapped_bytes = 0;          // live, cached and slab slack
  Bytes mapped_peak_bytes = 0;     // since the last resetPeaks()
  Bytes cached_bytes = 0;          // whole blocks waiting for reuse
  Bytes slack_at_peak_bytes = 0;   // mapped, but in no block, when allocated_peak_bytes was reached
  std::int64_t allocations = 0;
  std::int64_t reclaims = 0;           // calls of the reclaimer
  std::int64_t budget_violations = 0;  // allocations that were let over the budget
};

class CachingResource {
 public:
  explicit CachingResource(std::unique_ptr<Backend> backend);
  ~CachingResource();
  CachingResource(const CachingResource&) = delete;
  CachingResource& operator=(const CachingResource&) = delete;

  // nullptr for 0 bytes and when out of memory or out of budget. Aligned to kAlignment.
  void* allocate(std::size_t bytes) noexcept;
  // nullptr is ignored. A foreign pointer or a double free aborts with a message, or faults when
  // the memory before the pointer is not mapped any more.
  void deallocate(void* block) noexcept;

  // What a request of this size debits for as long as it lives; kUnlimited where no system could
  // serve it. The planner's simulator uses the same function.
  static Bytes blockBytesFor(std::size_t request_bytes) noexcept;
  static Bytes blockBytes(const void* block) noexcept;

  // Below what is mapped: cached blocks go now, the rest as blocks are freed. With kUnlimited, what
  // is mapped stays within 7/6 of the live peak (or 64 MiB above it) as long as cached blocks can
  // be reshaped; slab chunks come on top.
  void setBudget(Bytes budget_bytes) noexcept;
  // Not owned; nullptr for none. Returns when no other thread is in the old one any more.
  void setReclaimer(Reclaimer* reclaimer) noexcept;
  // Not owned; nullptr for none; may be switched at any time. A call that has begun may still reach
  // the old one, so keep it until the threads that allocate are quiet.
  void setObserver(Observer* observer) noexcept;
  void allowOverrun(bool allow) noexcept;  // default true: over budget is counted, not refused
  void releaseCached() noexcept;           // gives all cached blocks back to the system
  void resetPeaks() noexcept;
  Statistics statistics() const noexcept;

  // For pthread_atfork: before the fork, and after it in both processes. The child finds the lock
  // free, and its ledger without what other threads were mapping at that moment.
  void lockForFork() noexcept;
  void unlockAfterFork() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide::allocator
