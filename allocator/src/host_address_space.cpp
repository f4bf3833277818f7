// Boundary to the system: anonymous private mappings.
#include "ebbtide/allocator/host_address_space.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace ebbtide::allocator {
namespace {

constexpr Bytes kHugePageBytes = Bytes{2} << 20;

std::size_t size(Bytes bytes) noexcept {
  return static_cast<std::size_t>(bytes);
}

class HostAddressSpace final : public AddressSpace {
 public:
  Bytes pageBytes() const noexcept override { return page_bytes_; }

  void* reserve(Bytes bytes) noexcept override {
    if (size(bytes) > kMostRequestBytes) return nullptr;
    // One huge page too many; both ends go back.
    void* raw = ::mmap(nullptr, size(bytes + kHugePageBytes), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
    if (raw == MAP_FAILED) return nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(raw);
    const auto misfit = static_cast<Bytes>(address % kHugePageBytes);
    const Bytes front = misfit == 0 ? 0 : kHugePageBytes - misfit;
    std::byte* const begin = static_cast<std::byte*>(raw) + front;
    if (front > 0) ::munmap(raw, size(front));
    if (front < kHugePageBytes) ::munmap(begin + bytes, size(kHugePageBytes - front));
    // Advice only: where the kernel has no huge pages it works without. A huge page is never given
    // to an extent that is mapped in part, because its mapping ends there.
    ::madvise(begin, size(bytes), MADV_HUGEPAGE);
    return begin;
  }

  void release(void* begin, Bytes bytes) noexcept override { ::munmap(begin, size(bytes)); }

  bool map(void* begin, Bytes bytes) noexcept override {
    return ::mprotect(begin, size(bytes), PROT_READ | PROT_WRITE) == 0;
  }

  void unmap(void* begin, Bytes bytes) noexcept override {
    if (::madvise(begin, size(bytes), MADV_DONTNEED) != 0) {  // somebody has locked them
      ::munlock(begin, size(bytes));
      ::madvise(begin, size(bytes), MADV_DONTNEED);
    }
    // Refused when the kernel is out of mapping slots (vm.max_map_count): the pages are gone, only
    // a stray access is not caught.
    ::mprotect(begin, size(bytes), PROT_NONE);
  }

 private:
  const Bytes page_bytes_ = ::sysconf(_SC_PAGESIZE);
};

}  // namespace

Bytes hostReserveBytes() noexcept {
  const Bytes memory = Bytes{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  return memory > 0 ? 4 * memory : Bytes{64} << 30;
}

std::unique_ptr<AddressSpace> makeHostAddressSpace() {
  return std::make_unique<HostAddressSpace>();
}

}  // namespace ebbtide::allocator
