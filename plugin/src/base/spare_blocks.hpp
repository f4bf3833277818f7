// SpareBlocks: memory of what has ended, for the next of its kind: what a step makes, the one after
// it makes again. Without them each step's end breaks the system's lists of small blocks up, and
// each begin searches them.
//
//   take() ◄── spare blocks of one size ◄── giveBack()     up to 4 MiB of them; more is freed
//
// Thread rule: any; who finds the lock taken, in a forked child for ever perhaps, goes to the
// system instead. Torch-free.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <new>

namespace ebbtide::plugin {

// For one object of T each.
template <typename T>
class SpareBlocks {
 public:
  static constexpr std::size_t kMost =
      std::clamp<std::size_t>((std::size_t{4} << 20) / sizeof(T), 1, 256);

  // Not initialised. Throws std::bad_alloc.
  static void* take() {
    {
      const std::unique_lock lock(spare().mutex, std::try_to_lock);
      if (lock && spare().count > 0) return spare().blocks[--spare().count];
    }
    return ::operator new(sizeof(T), std::align_val_t(alignof(T)));
  }
  static void giveBack(void* block) noexcept {
    {
      const std::unique_lock lock(spare().mutex, std::try_to_lock);
      if (lock && spare().count < kMost) {
        spare().blocks[spare().count++] = block;
        return;
      }
    }
    ::operator delete(block, std::align_val_t(alignof(T)));
  }

 private:
  struct Spare {
    std::mutex mutex;
    std::size_t count = 0;
    std::array<void*, kMost> blocks;
  };
  // Leaked: graphs may end while the process exits.
  static Spare& spare() {
    static auto* const all = new Spare();
    return *all;
  }
};

// For std::allocate_shared.
template <typename T>
struct SpareAllocator {
  using value_type = T;

  SpareAllocator() = default;
  template <typename Other>
  SpareAllocator(const SpareAllocator<Other>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count == 1) return static_cast<T*>(SpareBlocks<T>::take());
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(alignof(T))));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    if (count == 1) return SpareBlocks<T>::giveBack(block);
    ::operator delete(block, std::align_val_t(alignof(T)));
  }
  bool operator==(const SpareAllocator&) const noexcept { return true; }
};

}  // namespace ebbtide::plugin
