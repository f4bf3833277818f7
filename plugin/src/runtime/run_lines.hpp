// RunLines: the lines that a run says on stderr, one each, tagged with the rank that it is taken to
// be, as its configuration asks for. Torch-free. Thread rule: any thread.
#pragma once

#include <atomic>
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

 private:
  bool isSilent() const;

  const CurrentConfig& config_;
  const std::atomic<bool>& ends_;
};

}  // namespace ebbtide::plugin
