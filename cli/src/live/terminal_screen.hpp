// TerminalScreen: the terminal, drawn on and read from with ncurses.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "live/top_frame.hpp"

namespace ebbtide::cli {

// One at a time, used by one thread.
class TerminalScreen {
 public:
  // Throws std::invalid_argument where there is no terminal, or one that ncurses does not know.
  TerminalScreen();
  ~TerminalScreen();  // leaves the terminal as it was
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  ScreenSize size() const;
  bool unicode() const { return unicode_; }
  void draw(const std::vector<FrameLine>& lines);

  // Nothing: no key of meaning within the time. A new size ends the wait, too.
  std::optional<TopKey> key(std::chrono::milliseconds limit);
  bool closed() const { return closed_; }  // the terminal is gone

 private:
  bool unicode_ = false, colors_ = false, closed_ = false;
};

// The locale's encoding is UTF-8. Sets the locale to the environment's.
bool localeIsUnicode();

}  // namespace ebbtide::cli
