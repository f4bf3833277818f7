// TextTable: rows in columns as wide as they need.
#pragma once

#include <string>
#include <vector>

namespace ebbtide::cli {

class TextTable {
 public:
  struct Column {
    std::string title;
    bool right = true;  // aligned so
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // With the titles; no spaces at the ends of lines. A row that is short ends with its last cell,
  // which then may be as long as it likes.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ebbtide::cli
