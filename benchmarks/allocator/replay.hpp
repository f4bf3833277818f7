// Replays a loop on a subject.
#pragma once

#include <benchmark/benchmark.h>

#include <utility>
#include <vector>

#include "allocation_trace.hpp"

namespace ebbtide::benchmarks {

enum class Touch { kNothing, kPages };  // kPages: one byte of each page of a new block

template <typename Subject, Touch touch>
class Replay {
 public:
  // prepare(subject) comes before its first allocation.
  template <typename Prepare>
  Replay(const ReplayLoop& loop, Prepare&& prepare)
      : loop_(loop), subject_(loop), slots_(loop.slots), carried_(loop.carries.size()) {
    prepare(subject_);
    turn(loop.before);
  }
  ~Replay() {
    for (void* block : slots_) {
      if (block != nullptr) subject_.free(block);
    }
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void once() noexcept {
    for (std::size_t step = 0; step < loop_.steps.size(); ++step) {
      subject_.beginStep(step);
      turn(loop_.steps[step]);
    }
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      carried_[i] = std::exchange(slots_[loop_.carries[i].from], nullptr);
    }
    for (std::size_t i = 0; i < carried_.size(); ++i) slots_[loop_.carries[i].to] = carried_[i];
  }

  Subject& subject() noexcept { return subject_; }
  std::int64_t refused() const noexcept { return refused_; }

 private:
  void turn(const std::vector<ReplayLoop::Event>& events) noexcept {
    for (const ReplayLoop::Event& event : events) {
      void*& block = slots_[event.slot];
      if (event.bytes == 0) {
        if (block != nullptr) subject_.free(block);
        block = nullptr;
        continue;
      }
      block = subject_.allocate(event.bytes);
      benchmark::DoNotOptimize(block);
      if (block == nullptr) ++refused_;
      if constexpr (touch == Touch::kPages) touchPages(block, event.bytes);
    }
  }

  static void touchPages(void* block, Bytes bytes) noexcept {
    constexpr Bytes kPage = 4096;
    auto* const begin = static_cast<volatile char*>(block);
    for (Bytes at = 0; at < bytes; at += kPage) begin[at] = 1;
  }

  const ReplayLoop& loop_;
  Subject subject_;
  std::vector<void*> slots_;
  std::vector<void*> carried_;
  std::int64_t refused_ = 0;
};

}  // namespace ebbtide::benchmarks
