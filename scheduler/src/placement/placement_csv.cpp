#include "ebbtide/scheduler/placement_csv.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "placement/placement_check.hpp"

namespace ebbtide::scheduler {
namespace {

[[noreturn]] void fail(std::size_t line, const std::string& what) {
  throw std::invalid_argument("line " + std::to_string(line) + ": " + what);
}

// As they are in the row, quotes included.
std::vector<std::string_view> fieldsOf(std::string_view row, std::size_t line) {
  std::vector<std::string_view> fields;
  std::size_t from = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= row.size(); ++i) {
    if (i < row.size() && row[i] == '"') quoted = !quoted;  // "" within quotes: closed and opened
    if (i < row.size() && (quoted || row[i] != ',')) continue;
    fields.push_back(row.substr(from, i - from));
    from = i + 1;
  }
  if (quoted) fail(line, "a quote is not closed");
  return fields;
}

std::string unquoted(std::string_view field, std::size_t line) {
  if (field.find('"') == std::string_view::npos) return std::string(field);
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') {
    fail(line, "a quote within a field that is not quoted");
  }
  std::string text;
  for (std::size_t i = 1; i + 1 < field.size(); ++i) {
    text += field[i];
    if (field[i] != '"') continue;
    if (field[i + 1] != '"' || i + 2 == field.size()) fail(line, "text after a closing quote");
    ++i;
  }
  return text;
}

std::int64_t integer(std::string_view field, const char* column, std::size_t line) {
  const std::string text = unquoted(field, line);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(line, std::string(column) + " '" + text + "' is not a whole number of 64 bits");
  }
  return number;
}

std::vector<std::string> rowsOf(std::string_view text, std::string& line_end) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  std::vector<std::string> rows;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool carriage = row.ends_with('\r');
    if (carriage) row.remove_suffix(1);
    if (rows.empty()) line_end = carriage ? "\r\n" : "\n";
    rows.emplace_back(row);
  }
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
  return rows;
}

// Places of the columns in a row.
struct Columns {
  std::size_t count = 0;
  std::unordered_map<std::string, std::size_t> places;

  explicit Columns(const std::string& row) {
    for (const std::string_view field : fieldsOf(row, 1)) {
      if (!places.emplace(unquoted(field, 1), count++).second) {
        fail(1, "the column " + std::string(field) + " comes twice");
      }
    }
  }

  std::size_t place(const char* name) const {
    const auto found = places.find(name);
    if (found == places.end()) {
      fail(1, std::string("no column ") + name + "; needed are id, lower, upper and size");
    }
    return found->second;
  }
};

}  // namespace

PlacementTable placementFromCsv(const std::string& text) {
  PlacementTable table;
  table.rows = rowsOf(text, table.line_end);
  if (table.rows.empty()) fail(1, "the file is empty");
  const Columns columns(table.rows[0]);
  const std::size_t id = columns.place("id"), lower = columns.place("lower"),
                    upper = columns.place("upper"), size = columns.place("size");
  std::unordered_map<std::string, std::size_t> line_of;
  for (std::size_t i = 1; i < table.rows.size(); ++i) {
    const std::size_t line = i + 1;
    const auto fields = fieldsOf(table.rows[i], line);
    if (fields.size() != columns.count) {
      fail(line, std::to_string(fields.size()) + " fields where the first line has " +
                     std::to_string(columns.count));
    }
    table.ids.push_back(unquoted(fields[id], line));
    const auto [before, is_new] = line_of.emplace(table.ids.back(), line);
    if (!is_new) {
      fail(line,
           "the id '" + table.ids.back() + "' is that of line " + std::to_string(before->second));
    }
    table.problem.buffers.push_back({integer(fields[lower], "lower", line),
                                     integer(fields[upper], "upper", line),
                                     integer(fields[size], "size", line)});
  }
  if (const auto fault = findFault(table.problem)) {
    fail(fault->buffer + 2, "the buffer " + fault->what);
  }
  return table;
}

std::string toCsv(const PlacementTable& table, const std::vector<Bytes>& offsets) {
  const Columns columns(table.rows[0]);
  const auto found = columns.places.find("offset");
  const std::size_t place = found == columns.places.end() ? columns.count : found->second;
  std::string text;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    auto fields = fieldsOf(table.rows[i], i + 1);
    fields.resize(std::max(fields.size(), place + 1));
    const std::string offset = i == 0 ? "offset" : std::to_string(offsets.at(i - 1));
    fields[place] = offset;
    for (std::size_t at = 0; at < fields.size(); ++at) {
      if (at > 0) text += ',';
      text += fields[at];
    }
    text += table.line_end;
  }
  return text;
}

}  // namespace ebbtide::scheduler
