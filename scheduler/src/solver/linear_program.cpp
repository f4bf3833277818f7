#include "solver/linear_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace ebbtide::scheduler {
namespace {

template <class Item>
void append(std::string& bytes, const std::vector<Item>& items) {
  static_assert(std::is_trivially_copyable_v<Item>);
  const std::uint64_t size = items.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  if (size > 0) bytes.append(reinterpret_cast<const char*>(items.data()), size * sizeof(Item));
}

template <class Item>
void take(std::string_view& bytes, std::vector<Item>& items) {
  std::uint64_t size = 0;
  if (bytes.size() < sizeof size) throw std::runtime_error("a linear program that is cut off");
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size > bytes.size() / sizeof(Item)) {
    throw std::runtime_error("a linear program that is cut off");
  }
  items.resize(size);
  if (size > 0) std::memcpy(items.data(), bytes.data(), size * sizeof(Item));
  bytes.remove_prefix(size * sizeof(Item));
}

bool consistent(const LinearProgram& program) {
  const std::size_t columns = program.columns(), rows = program.rows();
  if (program.lower.size() != columns || program.upper.size() != columns) return false;
  if (program.integer.size() != columns || program.row_upper.size() != rows) return false;
  if (program.row_start.size() != rows + 1 || program.row_start.front() != 0) return false;
  if (!std::is_sorted(program.row_start.begin(), program.row_start.end())) return false;
  const auto terms = static_cast<std::size_t>(program.row_start.back());
  if (program.column.size() != terms || program.coefficient.size() != terms) return false;
  return std::all_of(program.column.begin(), program.column.end(), [&](std::int32_t column) {
    return column >= 0 && static_cast<std::size_t>(column) < columns;
  });
}

}  // namespace

LinearProgram::Column LinearProgram::addColumn(double cost_of_one, double least, double most,
                                               bool whole) {
  cost.push_back(cost_of_one);
  lower.push_back(least);
  upper.push_back(most);
  integer.push_back(whole ? 1 : 0);
  return static_cast<Column>(cost.size() - 1);
}

void LinearProgram::addRow(std::vector<Term> terms, double least, double most) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return a.column < b.column; });
  for (std::size_t i = 0; i < terms.size();) {
    double sum = 0;
    const Column one = terms[i].column;
    for (; i < terms.size() && terms[i].column == one; ++i) sum += terms[i].coefficient;
    if (sum == 0) continue;
    column.push_back(one);
    coefficient.push_back(sum);
  }
  row_lower.push_back(least);
  row_upper.push_back(most);
  row_start.push_back(static_cast<std::int32_t>(column.size()));
}

double LinearProgram::rowActivity(std::size_t row, const std::vector<double>& values) const {
  double sum = 0;
  for (std::int32_t i = row_start[row]; i < row_start[row + 1]; ++i) {
    const auto term = static_cast<std::size_t>(i);
    sum += coefficient[term] * values[static_cast<std::size_t>(column[term])];
  }
  return sum;
}

bool LinearProgram::satisfied(const std::vector<double>& values, double tolerance) const {
  if (values.size() != columns()) return false;
  for (std::size_t i = 0; i < columns(); ++i) {
    if (values[i] < lower[i] - tolerance || values[i] > upper[i] + tolerance) return false;
    if (integer[i] != 0 && std::abs(values[i] - std::round(values[i])) > tolerance) return false;
  }
  for (std::size_t row = 0; row < rows(); ++row) {
    const double sum = rowActivity(row, values);
    if (sum < row_lower[row] - tolerance || sum > row_upper[row] + tolerance) return false;
  }
  return true;
}

std::string LinearProgram::toBytes() const {
  std::string bytes;
  for (const auto* list : {&cost, &lower, &upper, &row_lower, &row_upper, &coefficient}) {
    append(bytes, *list);
  }
  for (const auto* list : {&integer, &row_start, &column}) append(bytes, *list);
  return bytes;
}

LinearProgram LinearProgram::fromBytes(std::string_view bytes) {
  LinearProgram program;
  for (auto* list : {&program.cost, &program.lower, &program.upper, &program.row_lower,
                     &program.row_upper, &program.coefficient}) {
    take(bytes, *list);
  }
  for (auto* list : {&program.integer, &program.row_start, &program.column}) take(bytes, *list);
  if (!bytes.empty() || !consistent(program)) {
    throw std::runtime_error("a linear program that contradicts itself");
  }
  return program;
}

double safeDualBound(const LinearProgram& program, const std::vector<double>& row_duals) {
  std::vector<double> reduced = program.cost;
  double bound = 0, magnitude = 0;
  const auto add = [&](double term) {
    bound += term;
    magnitude += std::abs(term);
  };
  for (std::size_t row = 0; row < program.rows(); ++row) {
    double dual = row_duals[row];
    const double side = dual > 0 ? program.row_lower[row] : program.row_upper[row];
    if (!std::isfinite(dual) || !std::isfinite(side)) dual = 0;  // any multiplier serves
    if (dual == 0) continue;
    add(dual * side);
    for (std::int32_t i = program.row_start[row]; i < program.row_start[row + 1]; ++i) {
      const auto term = static_cast<std::size_t>(i);
      const double change = dual * program.coefficient[term];
      const auto column = static_cast<std::size_t>(program.column[term]);
      reduced[column] -= change;
      magnitude += std::abs(change) * std::max(1.0, std::abs(program.upper[column]));
    }
  }
  for (std::size_t i = 0; i < program.columns(); ++i) {
    if (reduced[i] == 0) continue;
    add(reduced[i] * (reduced[i] > 0 ? program.lower[i] : program.upper[i]));
  }
  if (!std::isfinite(magnitude)) return -LinearProgram::kInfinity;
  return bound - 1e-12 * magnitude;
}

}  // namespace ebbtide::scheduler
