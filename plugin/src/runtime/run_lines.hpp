// RunLines: the texts that a run says on stderr, one line each, as its configuration asks for. Each
// is tagged with the rank that the process is taken to be. Torch-free. Thread rule: any thread.
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

  void say(const std::string& text) const;
  void warn(const std::string& text) const;
  void debug(const std::string& text) const;

  // For parts that only say lines; this must outlive them.
  using Tell = std::function<void(const std::string& text)>;
  Tell teller() const {
    return [this](const std::string& text) { say(text); };
  }
  Tell warner() const {
    return [this](const std::string& text) { warn(text); };
  }
  Tell debugger() const {
    return [this](const std::string& text) { debug(text); };
  }

 private:
  bool isSilent() const;

  const CurrentConfig& config_;
  const std::atomic<bool>& ends_;
};

}  // namespace ebbtide::plugin
