// CurrentConfig: what the environment asks for, of the rank that this process is taken to be: which
// one it is may be learnt while it runs.
//
// Thread rule: reads from any thread, without a lock; what was read stays valid, as those before
// are kept. change() by one thread at a time.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "config/config.hpp"

namespace ebbtide::plugin {

class CurrentConfig {
 public:
  explicit CurrentConfig(Config first = {}) { change(std::move(first)); }

  const Config& operator*() const noexcept { return *now_.load(std::memory_order_acquire); }
  const Config* operator->() const noexcept { return now_.load(std::memory_order_acquire); }

  void change(Config config) {
    all_.push_back(std::make_unique<const Config>(std::move(config)));
    now_.store(all_.back().get(), std::memory_order_release);
  }

 private:
  std::vector<std::unique_ptr<const Config>> all_;
  std::atomic<const Config*> now_{nullptr};
};

}  // namespace ebbtide::plugin
