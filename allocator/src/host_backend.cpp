// Boundary to the system: anonymous private mappings.
#include "ebbtide/allocator/host_backend.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace ebbtide::allocator {
namespace {

constexpr Bytes kHugePageBytes = Bytes{2} * 1024 * 1024;
constexpr Bytes kAlignFromBytes = 2 * kHugePageBytes;  // below, aligning costs more than it saves

std::size_t size(Bytes bytes) noexcept {
  return static_cast<std::size_t>(bytes);
}

void* plainMap(Bytes bytes, int protection) noexcept {
  void* address =
      ::mmap(nullptr, size(bytes), protection, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void plainUnmap(void* address, Bytes bytes) noexcept {
  if (bytes == 0 || ::munmap(address, size(bytes)) == 0) return;
  // The kernel is out of mapping slots (vm.max_map_count): the range leaks, its pages must not.
  ::madvise(address, size(bytes), MADV_DONTNEED);
}

bool isAligned(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % kHugePageBytes == 0;
}

// Maps one huge page too many and trims both ends.
void* alignedMap(Bytes bytes, int protection) noexcept {
  auto* raw = static_cast<std::byte*>(plainMap(bytes + kHugePageBytes, protection));
  if (raw == nullptr) return nullptr;
  const auto misfit = static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(raw) % kHugePageBytes);
  const Bytes front = misfit == 0 ? 0 : kHugePageBytes - misfit;
  plainUnmap(raw, front);
  plainUnmap(raw + front + bytes, kHugePageBytes - front);
  return raw + front;
}

// Advice only: where the kernel has no huge pages the block works without.
void* adviseHuge(void* address, Bytes bytes) noexcept {
  ::madvise(address, size(bytes), MADV_HUGEPAGE);
  return address;
}

class HostBackend final : public Backend {
 public:
  Bytes pageBytes() const noexcept override { return page_bytes_; }

  void* map(Bytes bytes) noexcept override {
    if (bytes < kAlignFromBytes) return plainMap(bytes, PROT_READ | PROT_WRITE);
    void* address = alignedMap(bytes, PROT_READ | PROT_WRITE);
    // Near the address-space limit the surplus may be what does not fit.
    if (address == nullptr) address = plainMap(bytes, PROT_READ | PROT_WRITE);
    return address == nullptr ? nullptr : adviseHuge(address, bytes);
  }

  void unmap(void* address, Bytes bytes) noexcept override { plainUnmap(address, bytes); }

  // Pages move by page-table entries: what is resident stays resident and is not zeroed again.
  void* resize(void* address, Bytes old_bytes, Bytes new_bytes) noexcept override {
    const bool wants_alignment = new_bytes >= kAlignFromBytes;
    if (new_bytes <= old_bytes || !wants_alignment || isAligned(address)) {
      void* same = ::mremap(address, size(old_bytes), size(new_bytes), /*flags=*/0);
      if (same != MAP_FAILED) return wants_alignment ? adviseHuge(same, new_bytes) : same;
    }
    if (wants_alignment) return moveAligned(address, old_bytes, new_bytes);
    void* moved = ::mremap(address, size(old_bytes), size(new_bytes), MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? nullptr : moved;
  }

 private:
  static void* moveAligned(void* address, Bytes old_bytes, Bytes new_bytes) noexcept {
    void* target = alignedMap(new_bytes, PROT_NONE);  // address space only
    void* moved = target == nullptr
                      ? ::mremap(address, size(old_bytes), size(new_bytes), MREMAP_MAYMOVE)
                      : ::mremap(address, size(old_bytes), size(new_bytes),
                                 MREMAP_MAYMOVE | MREMAP_FIXED, target);
    // On failure the target is left alone: the kernel may have unmapped it already, and another
    // thread may have mapped the range since. At worst some address space without pages is lost.
    return moved == MAP_FAILED ? nullptr : adviseHuge(moved, new_bytes);
  }

  const Bytes page_bytes_ = ::sysconf(_SC_PAGESIZE);
};

}  // namespace

std::unique_ptr<Backend> makeHostBackend() {
  return std::make_unique<HostBackend>();
}

}  // namespace ebbtide::allocator
