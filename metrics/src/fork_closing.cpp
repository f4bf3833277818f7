#include "fork_closing.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace ebbtide::metrics {
namespace {

// What is stored is the descriptor + 1: all zero at the start, before any constructor has run.
std::array<std::atomic<int>, 16> slots;

// In the child, where only what is safe in a signal's handler may be called.
void closeAll() {
  for (std::atomic<int>& slot : slots) {
    const int held = slot.exchange(0);
    if (held != 0) ::close(held - 1);
  }
}

}  // namespace

ForkClosing::ForkClosing(int descriptor) noexcept {
  static const int registered = ::pthread_atfork(nullptr, nullptr, closeAll);
  if (registered != 0) return;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int empty = 0;
    if (slots[i].compare_exchange_strong(empty, descriptor + 1)) {
      slot_ = static_cast<int>(i);
      return;
    }
  }
}

ForkClosing::~ForkClosing() {
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].store(0);
}

}  // namespace ebbtide::metrics
