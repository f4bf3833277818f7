// RunLines: the lines that a run says on stderr, one each, tagged with the rank that it is taken to
// be, as its configuration asks for. Torch-free. Thread rule: any thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "config/current_config.hpp"

namespace ebbtide::plugin {

class RunLines {
 public:
  // Both must outlive it. `ends`: the process ends. What the planning thread still does then nobody
  // asked for: no line of it may contradict the last one.
  RunLines(const CurrentConfig& config, const std::atomic<bool>& ends)
      : config_(config), ends_(ends) {}

  void say(const std::string& text) const;
  void warn(const std::string& text) const;
  void debug(const std::string& text) const;

  // For parts that know no more of it; it must outlive them.
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
