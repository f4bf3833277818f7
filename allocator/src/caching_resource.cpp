#include "ebbtide/allocator/caching_resource.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "block.hpp"
#include "block_cache.hpp"
#include "reshaping.hpp"
#include "seams.hpp"
#include "slab.hpp"

namespace ebbtide::allocator {
namespace {

// Nothing above can be mapped with five-level page tables; sums of such sizes stay far from
// overflow.
constexpr Bytes kMaxRequestBytes = Bytes{1} << 56;

// Calls of the reclaimer for one allocation; other threads may take what the first ones freed.
constexpr int kMaxReclaims = 8;

// Without a budget, a miss that would map more than the live peak and a slack on top reshapes the
// cache instead. With a sixth of slack a training step settles to hits; with an eighth it keeps
// moving pages. Small processes are never bothered.
constexpr Bytes kSlackDivisor = 6;
constexpr Bytes kFreeSlackBytes = Bytes{64} << 20;

// Set while this thread runs a reclaimer, of whichever resource: nested reclaims could wait in a
// circle.
thread_local bool reclaiming_here = false;

Bytes roundingBytes() noexcept {
  static const Bytes page_bytes = ::sysconf(_SC_PAGESIZE);
  return page_bytes;
}

BlockHeader* headerOf(const void* block) noexcept {
  return static_cast<BlockHeader*>(const_cast<void*>(block)) - 1;
}

[[noreturn]] void dieOfBadFree(const void* block, const char* reason) noexcept {
  std::fprintf(stderr, "ebbtide: deallocate(%p): %s\n", block, reason);
  std::abort();
}

void requireLive(const void* block) noexcept {
  if (reinterpret_cast<std::uintptr_t>(block) % kAlignment != 0) {
    dieOfBadFree(block, "not a block of this allocator");
  }
  const BlockHeader* header = headerOf(block);
  if (header->magic == magicFor(kLiveMagic, header)) return;
  dieOfBadFree(block, header->magic == magicFor(kFreeMagic, header)
                          ? "double free"
                          : "not a block of this allocator, or its header was overwritten");
}

struct Request {
  Bytes block_bytes;
  std::uint32_t size_class;

  explicit Request(Bytes bytes) noexcept
      : block_bytes(bytes), size_class(bytes <= kMaxSlotBytes ? classFor(bytes) : kLargeClass) {}
  bool isLarge() const noexcept { return size_class == kLargeClass; }
};

// What one allocation has tried so far.
struct Attempt {
  int reclaims = 0;
  int refusals = 0;      // by the backend
  bool progress = true;  // the last reclaim freed something usable
};

}  // namespace

// Every mapped byte is in one of: live blocks, cache, slab, in flight. In-flight bytes have no
// owner while the lock is dropped for a backend call; a thread that is short of them waits instead
// of giving up.
struct CachingResource::Impl {
  using Lock = std::unique_lock<std::mutex>;

  explicit Impl(std::unique_ptr<Backend> pages) : backend(std::move(pages)) {}

  bool fits(Bytes bytes) const noexcept { return bytes <= stats.budget_bytes - stats.mapped_bytes; }
  bool fitsWithCache(Bytes bytes) const noexcept { return fits(bytes - cache.bytes()); }
  bool cacheIsFull(const Request& request) const noexcept;
  bool mayReclaim(const Attempt& attempt) const noexcept;
  bool othersMayHelp(Bytes need) const noexcept;
  Bytes pagesFor(const Request& request) const noexcept;

  BlockHeader* takeReady(const Request& request) noexcept;
  BlockHeader* allocateSlow(const Request& request) noexcept;
  bool mapPages(Lock& lock, const Request& request, Bytes bytes) noexcept;
  bool recoverFromRefusal(Lock& lock, Bytes need, Attempt& attempt) noexcept;
  bool reshape(const Request& request, Bytes need) noexcept;
  void gather(Lock& lock, const Request& request, Bytes need) noexcept;
  void deliver(void* pages, Bytes bytes, const Request& request) noexcept;
  void releaseAtLeast(Lock& lock, Bytes bytes) noexcept;
  void unmapChain(Lock& lock, BlockHeader* chain, Bytes bytes) noexcept;
  void callReclaimer(Lock& lock, Bytes need, Attempt& attempt) noexcept;
  void free(BlockHeader* header) noexcept;
  void settle(Bytes bytes) noexcept;
  void notePeak() noexcept;
  void wait(Lock& lock) noexcept;

  const std::unique_ptr<Backend> backend;
  std::atomic<Observer*> observer{nullptr};

  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  int waiters = 0;
  Statistics stats;  // without cached_bytes, which the cache knows
  BlockCache cache;
  Neighbours neighbours;
  Seams seams;
  Slab slab;
  Bytes in_flight_bytes = 0;
  Bytes lifetime_peak_bytes = 0;  // of allocated_bytes, never reset
  Bytes freed_large_bytes = 0;    // ever; tells whether a reclaim made progress
  std::int64_t live_small = 0;
  Reclaimer* reclaimer = nullptr;
  bool reclaiming = false;
  bool allow_overrun = true;
  pid_t fork_parent = 0;
};

bool CachingResource::Impl::cacheIsFull(const Request& request) const noexcept {
  if (stats.budget_bytes != kUnlimited || cache.empty() || !request.isLarge()) return false;
  const Bytes peak = std::max(lifetime_peak_bytes, stats.allocated_bytes + request.block_bytes);
  const Bytes slack = std::max(kFreeSlackBytes, peak / kSlackDivisor);
  return stats.mapped_bytes + request.block_bytes > peak + slack;
}

bool CachingResource::Impl::mayReclaim(const Attempt& attempt) const noexcept {
  return reclaimer != nullptr && !reclaiming_here && attempt.progress &&
         attempt.reclaims < kMaxReclaims;
}

// Another thread is about to give back enough, or reclaims.
bool CachingResource::Impl::othersMayHelp(Bytes need) const noexcept {
  return (in_flight_bytes > 0 && fitsWithCache(need - in_flight_bytes)) ||
         (reclaiming && !reclaiming_here);
}

// A chunk shrinks to the pages of one slot before anything is reclaimed for it, but not before the
// cache gives way.
Bytes CachingResource::Impl::pagesFor(const Request& request) const noexcept {
  if (request.isLarge()) return request.block_bytes;
  const Bytes chunk_bytes = roundUp(Slab::kChunkBytes, roundingBytes());
  return fitsWithCache(chunk_bytes)
             ? chunk_bytes
             : roundUp(Slab::minChunkBytes(request.size_class), roundingBytes());
}

BlockHeader* CachingResource::Impl::takeReady(const Request& request) noexcept {
  BlockHeader* header =
      request.isLarge() ? cache.pop(request.block_bytes) : slab.pop(request.size_class);
  if (header == nullptr) return nullptr;
  header->magic = magicFor(kLiveMagic, header);
  live_small += request.isLarge() ? 0 : 1;
  ++stats.allocations;
  stats.allocated_bytes += request.block_bytes;
  if (stats.allocated_bytes > stats.allocated_peak_bytes) notePeak();
  lifetime_peak_bytes = std::max(lifetime_peak_bytes, stats.allocated_bytes);
  return header;
}

void CachingResource::Impl::notePeak() noexcept {
  stats.allocated_peak_bytes = stats.allocated_bytes;
  stats.slack_at_peak_bytes =
      stats.mapped_bytes - in_flight_bytes - stats.allocated_bytes - cache.bytes();
}

// One step per round, because each step may drop the lock and others may take what it gained.
BlockHeader* CachingResource::Impl::allocateSlow(const Request& request) noexcept {
  Lock lock(mutex);
  Attempt attempt;
  for (;;) {
    if (BlockHeader* header = takeReady(request)) return header;
    const Bytes need = pagesFor(request);
    if (!allow_overrun && need > stats.budget_bytes) return nullptr;
    if (fits(need) && !cacheIsFull(request)) {
      if (mapPages(lock, request, need)) continue;
      if (!recoverFromRefusal(lock, need, attempt)) return nullptr;
    } else if (reshape(request, need)) {
      continue;
    } else if (!cache.empty() && fitsWithCache(need)) {
      gather(lock, request, need);
    } else if (othersMayHelp(need)) {
      wait(lock);
    } else if (mayReclaim(attempt)) {
      const Bytes room = stats.budget_bytes - stats.mapped_bytes;
      callReclaimer(lock, need - room - cache.bytes(), attempt);
    } else if (allow_overrun && !cache.empty()) {
      releaseAtLeast(lock, cache.bytes());
    } else if (allow_overrun && mapPages(lock, request, need)) {
      ++stats.budget_violations;
    } else if (!allow_overrun || !recoverFromRefusal(lock, need, attempt)) {
      return nullptr;
    }
  }
}

// Debits, maps and delivers. False, and refunded, when the backend refuses.
bool CachingResource::Impl::mapPages(Lock& lock, const Request& request, Bytes bytes) noexcept {
  stats.mapped_bytes += bytes;
  const Bytes level = stats.mapped_bytes;
  in_flight_bytes += bytes;
  lock.unlock();
  void* pages = backend->map(bytes);
  lock.lock();
  if (pages == nullptr) stats.mapped_bytes -= bytes;
  settle(bytes);
  if (pages == nullptr) return false;
  stats.mapped_peak_bytes = std::max(stats.mapped_peak_bytes, level);
  seams.addRange(pages, bytes);
  deliver(pages, bytes, request);
  return true;
}

// The system is out of memory although the budget is not. First the cache goes back, then the
// reclaimer is asked, each followed by one more try.
bool CachingResource::Impl::recoverFromRefusal(Lock& lock, Bytes need, Attempt& attempt) noexcept {
  ++attempt.refusals;
  if (attempt.refusals == 1 && !cache.empty()) {
    releaseAtLeast(lock, cache.bytes());
    return true;
  }
  if (attempt.refusals > 2 || !mayReclaim(attempt)) return false;
  attempt.refusals = 2;
  while (reclaiming) wait(lock);
  if (!mayReclaim(attempt)) return false;
  callReclaimer(lock, need, attempt);
  releaseAtLeast(lock, cache.bytes());
  return true;
}

// From the cache alone, and without the system: cuts a larger block or joins neighbours.
bool CachingResource::Impl::reshape(const Request& request, Bytes need) noexcept {
  if (cache.bytes() < need) return false;
  BlockHeader* block = cache.popSmallestAtLeast(need);
  if (block == nullptr) block = neighbours.popJoined(cache, need);
  if (block == nullptr) return false;
  deliver(cutTo(cache, block, need), need, request);
  return true;
}

// Moves cached pages together; the budget's room provides what they lack. They are in flight
// meanwhile, so the ledger changes by the growth only.
void CachingResource::Impl::gather(Lock& lock, const Request& request, Bytes need) noexcept {
  Pieces pieces;
  pieces.pop(cache, seams, need);
  const Bytes growth = need - pieces.bytes();
  in_flight_bytes += need - growth;
  while (!fits(growth) && !cache.empty()) {
    releaseAtLeast(lock, growth - (stats.budget_bytes - stats.mapped_bytes));
  }
  if (!fits(growth)) {  // another thread was faster
    pieces.pushBack(cache);
    settle(need - growth);
    return;
  }
  for (const PageRange& range : pieces.moved()) seams.removeRange(range.begin, range.bytes);
  for (const PageRange& range : pieces.dropped()) seams.removeRange(range.begin, range.bytes);
  stats.mapped_bytes += growth;
  in_flight_bytes += growth;
  const Bytes level = stats.mapped_bytes;
  lock.unlock();
  for (const PageRange& range : pieces.dropped()) backend->unmap(range.begin, range.bytes);
  void* pages = pieces.moved().empty() ? backend->map(need) : backend->gather(pieces.moved(), need);
  lock.lock();
  settle(need);
  if (pages == nullptr) {
    stats.mapped_bytes -= need;
    return;
  }
  stats.mapped_peak_bytes = std::max(stats.mapped_peak_bytes, level);
  Bytes placed = 0;
  for (const PageRange& range : pieces.moved()) {
    seams.addRange(static_cast<std::byte*>(pages) + placed, range.bytes);
    placed += range.bytes;
  }
  seams.addRange(pages, need);
  deliver(pages, need, request);
}

// Where takeReady() finds them.
void CachingResource::Impl::deliver(void* pages, Bytes bytes, const Request& request) noexcept {
  if (request.isLarge()) {
    cache.push(makeFreeBlock(pages, bytes));
  } else {
    slab.addChunk(pages, bytes);
  }
}

// The smallest cached block that is enough, else the largest ones until they are. Credited after
// the unmapping, so that the ledger never shows less than is mapped.
void CachingResource::Impl::releaseAtLeast(Lock& lock, Bytes bytes) noexcept {
  BlockHeader* chain = nullptr;
  Bytes gathered = 0;
  if (bytes >= cache.bytes()) {
    gathered = cache.bytes();
    chain = cache.popAll();
  }
  while (gathered < bytes && !cache.empty()) {
    BlockHeader* header = cache.popSmallestAtLeast(bytes - gathered);
    if (header == nullptr) header = cache.popLargest();
    gathered += header->block_bytes;
    header->next = chain;
    chain = header;
  }
  if (chain != nullptr) unmapChain(lock, chain, gathered);
}

void CachingResource::Impl::unmapChain(Lock& lock, BlockHeader* chain, Bytes bytes) noexcept {
  in_flight_bytes += bytes;
  for (BlockHeader* block = chain; block != nullptr; block = block->next) {
    seams.removeRange(block, block->block_bytes);
  }
  lock.unlock();
  while (chain != nullptr) {
    BlockHeader* const next = chain->next;
    backend->unmap(chain, chain->block_bytes);
    chain = next;
  }
  lock.lock();
  stats.mapped_bytes -= bytes;
  settle(bytes);
}

void CachingResource::Impl::callReclaimer(Lock& lock, Bytes need, Attempt& attempt) noexcept {
  const Bytes freed_before = freed_large_bytes;
  Reclaimer* const callee = reclaimer;
  ++attempt.reclaims;
  ++stats.reclaims;
  reclaiming = true;
  reclaiming_here = true;
  lock.unlock();
  callee->reclaim(need);  // what it says it freed is not believed
  lock.lock();
  reclaiming_here = false;
  reclaiming = false;
  attempt.progress = freed_large_bytes != freed_before;
  changed.notify_all();
}

void CachingResource::Impl::free(BlockHeader* header) noexcept {
  Lock lock(mutex);
  requireLive(header + 1);  // again: two threads may free one block at once
  header->magic = magicFor(kFreeMagic, header);
  stats.allocated_bytes -= header->block_bytes;
  if (header->size_class != kLargeClass) {
    --live_small;
    slab.push(header);
  } else {
    freed_large_bytes += header->block_bytes;
    header->next = nullptr;
    if (fits(0)) {
      cache.push(header);
    } else {
      unmapChain(lock, header, header->block_bytes);
    }
  }
  if (waiters > 0) changed.notify_all();
}

void CachingResource::Impl::settle(Bytes bytes) noexcept {
  in_flight_bytes -= bytes;
  changed.notify_all();
}

void CachingResource::Impl::wait(Lock& lock) noexcept {
  ++waiters;
  changed.wait(lock);
  --waiters;
}

CachingResource::CachingResource(std::unique_ptr<Backend> backend)
    : impl_(std::make_unique<Impl>(std::move(backend))) {
  if (roundingBytes() % impl_->backend->pageBytes() != 0) {
    throw std::invalid_argument("the backend's pages must divide the system's");
  }
}

// Blocks still live stay mapped: their owners outlive this object and may read them, but not free
// them.
CachingResource::~CachingResource() {
  releaseCached();
  if (impl_->live_small > 0) return;
  impl_->slab.drain([this](void* pages, Bytes bytes) { impl_->backend->unmap(pages, bytes); });
}

Bytes CachingResource::blockBytesFor(std::size_t request_bytes) noexcept {
  if (request_bytes == 0) return 0;
  if (request_bytes > static_cast<std::size_t>(kMaxRequestBytes)) return kUnlimited;
  const Bytes bytes = static_cast<Bytes>(request_bytes) + kHeaderBytes;
  return bytes <= kMaxSlotBytes ? slotBytes(classFor(bytes)) : roundUp(bytes, roundingBytes());
}

Bytes CachingResource::blockBytes(const void* block) noexcept {
  return block == nullptr ? 0 : headerOf(block)->block_bytes;
}

void* CachingResource::allocate(std::size_t bytes) noexcept {
  if (bytes == 0 || bytes > static_cast<std::size_t>(kMaxRequestBytes)) return nullptr;
  const Request request(blockBytesFor(bytes));
  BlockHeader* header = nullptr;
  {
    const std::lock_guard lock(impl_->mutex);
    header = impl_->takeReady(request);
  }
  if (header == nullptr) header = impl_->allocateSlow(request);
  if (header == nullptr) return nullptr;
  void* block = header + 1;
  if (Observer* observer = impl_->observer.load(std::memory_order_acquire)) {
    observer->onAllocate(block, request.block_bytes);
  }
  return block;
}

void CachingResource::deallocate(void* block) noexcept {
  if (block == nullptr) return;
  requireLive(block);
  BlockHeader* header = headerOf(block);
  // Before the block can be reused, so that an observer sees its free before its next allocation.
  if (Observer* observer = impl_->observer.load(std::memory_order_acquire)) {
    observer->onFree(block, header->block_bytes);
  }
  impl_->free(header);
}

void CachingResource::setBudget(Bytes budget_bytes) noexcept {
  Impl::Lock lock(impl_->mutex);
  impl_->stats.budget_bytes = std::max<Bytes>(budget_bytes, 0);
  impl_->changed.notify_all();
  if (!impl_->fits(0)) {
    impl_->releaseAtLeast(lock, impl_->stats.mapped_bytes - impl_->stats.budget_bytes);
  }
}

void CachingResource::setReclaimer(Reclaimer* reclaimer) noexcept {
  Impl::Lock lock(impl_->mutex);
  impl_->reclaimer = reclaimer;
  // The caller may destroy the old one next.
  while (impl_->reclaiming && !reclaiming_here) impl_->wait(lock);
}

void CachingResource::setObserver(Observer* observer) noexcept {
  impl_->observer.store(observer, std::memory_order_release);
}

void CachingResource::allowOverrun(bool allow) noexcept {
  const std::lock_guard lock(impl_->mutex);
  impl_->allow_overrun = allow;
  impl_->changed.notify_all();
}

void CachingResource::releaseCached() noexcept {
  Impl::Lock lock(impl_->mutex);
  impl_->releaseAtLeast(lock, impl_->cache.bytes());
}

void CachingResource::resetPeaks() noexcept {
  const std::lock_guard lock(impl_->mutex);
  impl_->notePeak();
  impl_->stats.mapped_peak_bytes = impl_->stats.mapped_bytes;
}

Statistics CachingResource::statistics() const noexcept {
  const std::lock_guard lock(impl_->mutex);
  Statistics stats = impl_->stats;
  stats.cached_bytes = impl_->cache.bytes();
  return stats;
}

void CachingResource::lockForFork() noexcept {
  impl_->mutex.lock();
  impl_->fork_parent = ::getpid();
}

void CachingResource::unlockAfterFork() noexcept {
  Impl& impl = *impl_;
  if (::getpid() != impl.fork_parent) {
    // The child has this thread only. What others had in flight is lost to it, and nobody waits.
    impl.stats.mapped_bytes -= impl.in_flight_bytes;
    impl.in_flight_bytes = 0;
    impl.reclaiming = impl.reclaiming && reclaiming_here;
    impl.waiters = 0;
    new (&impl.changed) std::condition_variable;
  }
  impl.mutex.unlock();
}

}  // namespace ebbtide::allocator
