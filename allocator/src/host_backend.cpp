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
  void* gather(std::span<const PageRange> pieces, Bytes bytes) noexcept override {
    const bool wants_alignment = bytes >= kAlignFromBytes;
    if (pieces.size() == 1 && (!wants_alignment || isAligned(pieces[0].begin))) {
      const PageRange& only = pieces[0];
      void* same = ::mremap(only.begin, size(only.bytes), size(bytes), /*flags=*/0);
      if (same != MAP_FAILED) return wants_alignment ? adviseHuge(same, bytes) : same;
    }
    // Address space only.
    void* target = wants_alignment ? alignedMap(bytes, PROT_NONE) : nullptr;
    if (target == nullptr) target = plainMap(bytes, PROT_NONE);
    if (target == nullptr) {
      for (const PageRange& piece : pieces) plainUnmap(piece.begin, piece.bytes);
      return nullptr;
    }
    return moveTo(static_cast<std::byte*>(target), pieces, bytes);
  }

 private:
  static void* moveTo(std::byte* target, std::span<const PageRange> pieces, Bytes bytes) noexcept {
    Bytes placed = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::byte* const here = target + placed;
      placed += pieces[i].bytes;
      if (::mremap(pieces[i].begin, size(pieces[i].bytes), size(pieces[i].bytes),
                   MREMAP_MAYMOVE | MREMAP_FIXED, here) != MAP_FAILED) {
        continue;
      }
      // The range of the failed piece is left alone: the kernel may have unmapped it already, and
      // another thread may have mapped it since. At worst address space without pages is lost.
      plainUnmap(target, here - target);
      plainUnmap(target + placed, bytes - placed);
      for (const PageRange& rest : pieces.subspan(i)) plainUnmap(rest.begin, rest.bytes);
      return nullptr;
    }
    if (placed < bytes &&
        ::mprotect(target + placed, size(bytes - placed), PROT_READ | PROT_WRITE) != 0) {
      plainUnmap(target, bytes);
      return nullptr;
    }
    return bytes < kAlignFromBytes ? target : adviseHuge(target, bytes);
  }

  const Bytes page_bytes_ = ::sysconf(_SC_PAGESIZE);
};

}  // namespace

std::unique_ptr<Backend> makeHostBackend() {
  return std::make_unique<HostBackend>();
}

}  // namespace ebbtide::allocator
