// SparseArray: a zeroed array of fixed length. Only its touched pages take memory.
//
// So an index into a whole range of addresses costs only its used part and never grows, and freeing
// never allocates. Bookkeeping on the host, outside the budget tracker. For trivial types whose
// zero value means "nothing".
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace ebbtide::allocator {

template <typename T>
class SparseArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  // Throws std::bad_alloc when there are no addresses left.
  explicit SparseArray(std::size_t count) : bytes_(count * sizeof(T)) {
    void* begin = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
    if (begin == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<T*>(begin);
  }
  ~SparseArray() { ::munmap(begin_, bytes_); }
  SparseArray(const SparseArray&) = delete;
  SparseArray& operator=(const SparseArray&) = delete;

  T& operator[](std::size_t index) noexcept { return begin_[index]; }
  const T& operator[](std::size_t index) const noexcept { return begin_[index]; }

 private:
  std::size_t bytes_;
  T* begin_ = nullptr;
};

}  // namespace ebbtide::allocator
