// RunLines: the texts that a run says on stderr, one line each, as its configuration asks for. Each
// is tagged with the rank that the process is taken to be. Torch-free. Thread rule: any thread, but
// for beCurrent(), which is called once, of lines that live as long as the process.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "config/current_config.hpp"

namespace ebbtide::plugin {

class RunLines {
 public:
  // Both must outlive this. `ends`: the process ends. Nobody asked for what the planning thread
  // still does then, and no line about it may contradict the last line.
  RunLines(const CurrentConfig& config, const std::atomic<bool>& ends)
      : config_(config), ends_(ends) {}

  // Of the process's run, for who is called without a part of it; nullptr: none has begun.
  static const RunLines* current() noexcept { return current_.load(std::memory_order_acquire); }
  void beCurrent() const noexcept { current_.store(this, std::memory_order_release); }

  // False: the process ends, and nothing is said. A line that the level leaves out counts as said.
  bool say(const std::string& text) const;
  bool warn(const std::string& text) const;
  bool debug(const std::string& text) const;

  // For parts that only say lines; this must outlive them.
  using Tell = std::function<bool(const std::string& text)>;
  Tell teller() const {
    return [this](const std::string& text) { return say(text); };
  }
  Tell warner() const {
    return [this](const std::string& text) { return warn(text); };
  }
  Tell debugger() const {
    return [this](const std::string& text) { return debug(text); };
  }

 private:
  bool isSilent() const;

  const CurrentConfig& config_;
  const std::atomic<bool>& ends_;
  static inline std::atomic<const RunLines*> current_{nullptr};
};

}  // namespace ebbtide::plugin
