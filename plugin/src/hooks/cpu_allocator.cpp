#include "hooks/cpu_allocator.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <typeinfo>
#include <utility>

#include "base/message_table.hpp"
#include "base/thread_scopes.hpp"
#include "hooks/op_calls.hpp"
#include "hooks/recorder.hpp"
#include "hooks/thread_state.hpp"
#include "memory/dropped_blocks.hpp"
#include "runtime/budget/out_of_memory_text.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

// A C++ program that does not catch the error prints all of what(): frames of ours tell it nothing.
constexpr auto kNoFrames = nullptr;

allocator::DeviceMemory* resource = nullptr;
thread_local FillPattern fill_pattern;
c10::DeleterFnPtr standard_deleter = nullptr;  // of PyTorch's own CPU allocator

void deleteBlock(void* block) {
  // Asked for raw before ours took the other's place, given back raw after it.
  if (C10_UNLIKELY(!resource->owns(block))) return standard_deleter(block);
  if (droppedBlocks().keepIfWritten(block)) return;
  resource->deallocate(block);
}

[[noreturn]] void failOutOfMemory(Session& session, std::size_t bytes) {
  if (!TrialScope::active()) {
    session.outputs().counters.addOutOfMemory();
    session.budgets().verdict().noteFailedAllocation(bytes);
  }
  LiveShares live(*resource);
  std::string by;
  if (!RunLife::inChild()) {  // a child's steps are not recorded
    const QuietScope quiet;
    try {
      by = runningOp();
      nameLiveBlocks(live);
    } catch (const std::exception&) {
      // The error says what is known by now.
    }
  }
  throw c10::OutOfMemoryError(withCode(outOfMemoryText(session.budgets(), bytes, by, live)),
                              kNoFrames);
}

void freeOwn(void* block) {
  std::free(block);
}

// Small things: recorded states of generators, say.
c10::DataPtr ownMemory(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  void* const block = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) & -kAlignment);
  if (block == nullptr) throw std::bad_alloc();
  return {block, block, &freeOwn, c10::Device(c10::kCPU)};
}

// oneDNN uses raw_allocate, which asserts data == context: the block is its own context.
class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* block = nullptr;
    if (bytes > 0 && OwnMemoryScope::active()) return ownMemory(bytes);
    if (bytes > 0) {
      Session* session = Session::current();
      if (C10_UNLIKELY(opCalls().atRest() && !OpCalls::Thread::isKnown())) threadState();
      refuseBlock();
      block = resource->allocate(bytes, allocator::Stream::kDefault);
      if (C10_UNLIKELY(block == nullptr)) failOutOfMemory(*session, bytes);
      if (fill_pattern) std::memset(block, *fill_pattern, bytes);
    }
    return {block, block, &deleteBlock, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &deleteBlock; }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    std::memcpy(target, source, bytes);
  }
};

// torch.UntypedStorage(n), and so copy.deepcopy of a tensor and the staging of an asynchronous
// checkpoint, asks c10::GetDefaultCPUAllocator(), which no SetAllocator() changes: one object of a
// class that only libc10 knows, without state. One of ours is made where it lies. So whoever asks
// either gets ours, and what compares the two addresses finds what it expects.
bool takeStandardsPlace() {
  c10::Allocator* const standard = c10::GetDefaultCPUAllocator();
  static_assert(sizeof(CpuAllocator) == sizeof(c10::Allocator));
  const c10::Allocator& known = *standard;
  if (std::strcmp(typeid(known).name(), "N3c1019DefaultCPUAllocatorE") != 0) return false;
  new (standard) CpuAllocator();
  return true;
}

}  // namespace

bool installCpuAllocator(allocator::DeviceMemory& memory) {
  resource = &memory;
  standard_deleter = c10::GetDefaultCPUAllocator()->raw_deleter();
  static auto* const ours = new CpuAllocator();  // storages may outlive static destruction
  c10::SetAllocator(c10::kCPU, ours, 255);
  return takeStandardsPlace();
}

void refuseBlock() {
  Session* const session = Session::current();
  if (session == nullptr) return;
  BudgetRefusal& refusal = session->budgets().verdict().refusal();
  if (!refusal.requested()) return;
  if (!inTrainingOp() || QuietScope::active()) return;
  const NeedsOfRanks::ByRank others = refusal.others().ask(session->config());
  if (!refusal.requested()) return;  // another thread has met it meanwhile, and goes on
  refuseThreadStep();
  session->outputs().counters.addOutOfMemory();
  const std::string text = refusal.raise(session->guard().hold(), others);
  throw c10::OutOfMemoryError(withCode(text), kNoFrames);
}

FillPattern fillNewBlocks(FillPattern pattern) noexcept {
  return std::exchange(fill_pattern, pattern);
}

c10::Storage adoptBlock(void* block, std::size_t bytes) {
  return {c10::Storage::use_byte_size_t(), bytes,
          c10::DataPtr(block, block, &deleteBlock, c10::Device(c10::kCPU)),
          c10::GetAllocator(c10::kCPU), false};
}

bool isOurBlock(const c10::Storage& storage) noexcept {
  return storage.data_ptr().get_deleter() == &deleteBlock &&
         storage.data() == storage.data_ptr().get_context();
}

}  // namespace ebbtide::plugin
