#include "text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ebbtide::cli {

std::string TextTable::text() const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    widths.push_back(column.title.size());
  }
  for (const auto& row : rows_) {
    const bool is_short = row.size() < columns_.size();
    for (std::size_t i = 0; i + (is_short ? 1 : 0) < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  const auto write = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool runs_on = row.size() < columns_.size() && i + 1 == row.size();
      const std::size_t width = runs_on ? 0 : widths[i];
      line += i == 0 ? "" : "  ";
      line += columns_[i].right && !runs_on ? fmt::format("{:>{}}", row[i], width)
                                            : fmt::format("{:<{}}", row[i], width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  write(titles);
  for (const auto& row : rows_) write(row);
  return text;
}

}  // namespace ebbtide::cli
