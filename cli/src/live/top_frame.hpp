// What `ebbtide top` shows, as lines of styled text: a function of the model and the screen's size.
#pragma once

#include <string>
#include <vector>

#include "live/top_model.hpp"

namespace ebbtide::cli {

struct ScreenSize {
  int columns = 80;
  int lines = 24;
};

enum class TextStyle { kPlain, kFaint, kTitle, kGood, kWarning, kBad };

struct StyledText {
  std::string text;  // UTF-8; every code point is one column wide
  TextStyle style = TextStyle::kPlain;
};

struct FrameLine {
  std::vector<StyledText> parts;
  bool selected = false;

  std::string text() const;  // without styles
};

// Code points.
int columnsOf(const std::string& text);

// Rows of ranks that fit; at least 1.
int visibleRows(const ScreenSize& size);

// At most size.lines lines of at most size.columns columns. Without `unicode` bars and trends are
// drawn in ASCII.
std::vector<FrameLine> topFrame(const TopModel& model, const ScreenSize& size, bool unicode);

}  // namespace ebbtide::cli
