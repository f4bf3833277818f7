// SpareBlocks: memory of ended objects, kept for the next object of the type: a step makes what the
// one before made. Without spares each step's end splits the system's lists of small blocks, and
// each begin searches them.
//
//   take() ◄── spare blocks of one size ◄── giveBack()     up to 256, 4 MiB in all; more is freed
//
// Thread rule: any thread. A thread that finds the lock taken (in a forked child perhaps for ever)
// goes to the system instead. Torch-free.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <new>

namespace ebbtide::plugin {

// Each block holds one T. At least one is kept, however large.
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
