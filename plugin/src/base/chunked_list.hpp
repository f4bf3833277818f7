// ChunkedList: a list that grows at its end, and whose elements stay where they are. 64 lie side by
// side; chunks come from what earlier lists gave back.
//
//   ├ 0 … 63 ┤ ├ 64 … 127 ┤ ├ 128 … ┆ room ┤
//
// Thread rule: as std::deque: whoever has it guards it. Torch-free.
#pragma once

#include <cstddef>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/spare_blocks.hpp"

namespace ebbtide::plugin {

template <typename T>
class ChunkedList {
  template <typename List>
  class Iterator {
   public:
    Iterator(List& list, std::size_t place) : list_(&list), place_(place) {}
    auto& operator*() const { return (*list_)[place_]; }
    Iterator& operator++() {
      ++place_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return place_ == other.place_; }

   private:
    List* list_;
    std::size_t place_;
  };

 public:
  ChunkedList() = default;
  ~ChunkedList() {
    for (T& one : *this) one.~T();
    for (Chunk* const chunk : chunks_) SpareBlocks<Chunk>::giveBack(chunk);
  }
  ChunkedList(const ChunkedList&) = delete;
  ChunkedList& operator=(const ChunkedList&) = delete;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t place) noexcept { return *found(place); }
  const T& operator[](std::size_t place) const noexcept { return *found(place); }
  // Throws std::out_of_range.
  const T& at(std::size_t place) const {
    if (place >= size_) throw std::out_of_range("no such element");
    return (*this)[place];
  }

  template <typename... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    if (size_ == chunks_.size() * kOfChunk) addChunk();
    T* const made = ::new (chunks_[size_ / kOfChunk]->placeOf(size_ % kOfChunk))
        T(std::forward<Arguments>(arguments)...);
    ++size_;
    return *made;
  }
  void push_back(T&& one) { emplace_back(std::move(one)); }
  void pop_back() noexcept { (*this)[--size_].~T(); }

  auto begin() noexcept { return Iterator<ChunkedList>(*this, 0); }
  auto end() noexcept { return Iterator<ChunkedList>(*this, size_); }
  auto begin() const noexcept { return Iterator<const ChunkedList>(*this, 0); }
  auto end() const noexcept { return Iterator<const ChunkedList>(*this, size_); }

 private:
  static constexpr std::size_t kOfChunk = 64;

  struct Chunk {
    alignas(T) std::byte memory[kOfChunk * sizeof(T)];

    void* placeOf(std::size_t place) noexcept { return memory + place * sizeof(T); }
  };

  T* found(std::size_t place) const noexcept {
    return std::launder(static_cast<T*>(chunks_[place / kOfChunk]->placeOf(place % kOfChunk)));
  }
  void addChunk() {
    chunks_.push_back(nullptr);
    try {
      chunks_.back() = static_cast<Chunk*>(SpareBlocks<Chunk>::take());
    } catch (...) {
      chunks_.pop_back();
      throw;
    }
  }

  std::vector<Chunk*> chunks_;
  std::size_t size_ = 0;
};

}  // namespace ebbtide::plugin
