#include "live/terminal_screen.hpp"

// Its macros are named like functions of everybody.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <langinfo.h>
#include <ncurses.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ebbtide::cli {
namespace {

attr_t attributesOf(TextStyle style, bool colors) {
  const auto colored = [&](short pair, attr_t otherwise) {
    return colors ? static_cast<attr_t>(COLOR_PAIR(pair)) : otherwise;
  };
  switch (style) {
    case TextStyle::kPlain:
      return A_NORMAL;
    case TextStyle::kFaint:
      return A_DIM;
    case TextStyle::kTitle:
      return A_BOLD;
    case TextStyle::kGood:
      return colored(1, A_NORMAL);
    case TextStyle::kWarning:
      return colored(2, A_NORMAL);
    case TextStyle::kBad:
      return colored(3, A_NORMAL) | A_BOLD;
  }
  return A_NORMAL;
}

std::optional<TopKey> keyOf(int code) {
  using Kind = TopKey::Kind;
  const auto is = [](Kind kind) { return TopKey{.kind = kind, .letter = 0}; };
  switch (code) {
    case KEY_UP:
      return is(Kind::kUp);
    case KEY_DOWN:
      return is(Kind::kDown);
    case KEY_PPAGE:
      return is(Kind::kPageUp);
    case KEY_NPAGE:
      return is(Kind::kPageDown);
    case KEY_HOME:
      return is(Kind::kHome);
    case KEY_END:
      return is(Kind::kEnd);
    case KEY_ENTER:
    case '\n':
    case '\r':
      return is(Kind::kEnter);
    case 27:
      return is(Kind::kEscape);
    case KEY_BACKSPACE:
    case 127:
    case 8:
      return is(Kind::kBackspace);
    default:
      break;
  }
  if (code < ' ' || code > '~') return std::nullopt;
  return TopKey{.kind = Kind::kLetter, .letter = static_cast<char>(code)};
}

}  // namespace

bool localeIsUnicode() {
  // The decimal point stays: fmt does not use it, and what is read is none of the locale's.
  if (std::setlocale(LC_CTYPE, "") == nullptr) return false;
  return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
}

TerminalScreen::TerminalScreen() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    throw std::invalid_argument("top draws on a terminal, and this is none; --once prints once");
  }
  unicode_ = localeIsUnicode();
  ::set_escdelay(25);
  ::use_tioctl(true);  // LINES and COLUMNS are what they were when a shell exported them
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    const char* name = std::getenv("TERM");
    throw std::invalid_argument(std::string("the terminal '") + (name == nullptr ? "" : name) +
                                "' (TERM) is not known here; --once prints once");
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, true);
  ::curs_set(0);
  if (::has_colors() && ::start_color() == OK) {
    ::use_default_colors();
    colors_ = true;
    ::init_pair(1, COLOR_GREEN, -1);
    ::init_pair(2, COLOR_YELLOW, -1);
    ::init_pair(3, COLOR_RED, -1);
  }
}

TerminalScreen::~TerminalScreen() {
  ::endwin();
}

ScreenSize TerminalScreen::size() const {
  return {.columns = ::getmaxx(stdscr), .lines = ::getmaxy(stdscr)};
}

void TerminalScreen::draw(const std::vector<FrameLine>& lines) {
  ::werase(stdscr);
  const int height = std::min(static_cast<int>(lines.size()), size().lines);
  for (int y = 0; y < height; ++y) {
    const FrameLine& line = lines[static_cast<std::size_t>(y)];
    ::wmove(stdscr, y, 0);
    for (const StyledText& part : line.parts) {
      ::wattrset(stdscr, static_cast<int>(attributesOf(part.style, colors_) |
                                          (line.selected ? A_REVERSE : A_NORMAL)));
      ::waddnstr(stdscr, part.text.c_str(), -1);
    }
    if (line.selected) {
      for (int x = columnsOf(line.text()); x < size().columns; ++x) ::waddch(stdscr, ' ');
    }
  }
  ::wattrset(stdscr, A_NORMAL);
  ::wrefresh(stdscr);
}

std::optional<TopKey> TerminalScreen::key(std::chrono::milliseconds limit) {
  ::wtimeout(stdscr, static_cast<int>(limit.count()));
  const auto before = std::chrono::steady_clock::now();
  const int code = ::wgetch(stdscr);
  if (code != ERR) return keyOf(code);
  // At the end of input it does not wait.
  if (std::chrono::steady_clock::now() - before < limit / 2) {
    closed_ = ::isatty(STDIN_FILENO) == 0;
  }
  return std::nullopt;
}

}  // namespace ebbtide::cli
