// LinearProgram: minimise cost · x over rows of linear constraints, some of whose columns may be
// integer. Knows no solver.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::scheduler {

struct LinearProgram {
  using Column = std::int32_t;
  struct Term {
    Column column;
    double coefficient;
  };
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  std::vector<double> cost, lower, upper;  // per column
  std::vector<std::int32_t> integer;       // per column: 1 or 0
  std::vector<double> row_lower, row_upper;
  std::vector<std::int32_t> row_start{0};  // per row and one more: into the next two
  std::vector<std::int32_t> column;
  std::vector<double> coefficient;

  std::size_t columns() const { return cost.size(); }
  std::size_t rows() const { return row_lower.size(); }

  Column addColumn(double cost_of_one, double least, double most, bool whole = false);
  // Terms of one column are summed.
  void addRow(std::vector<Term> terms, double least, double most);

  double rowActivity(std::size_t row, const std::vector<double>& values) const;
  // Are all bounds, rows and integer columns met to within `tolerance`?
  bool satisfied(const std::vector<double>& values, double tolerance) const;

  std::string toBytes() const;  // this machine's byte order
  // Throws std::runtime_error where the bytes are none of toBytes().
  static LinearProgram fromBytes(std::string_view bytes);
};

// A bound below the cost of every solution, integer or not, from any multipliers of the rows, a
// solver's duals above all (Neumaier and Shcherbina 2004, section 2): it holds whatever they are,
// so nobody's tolerances need be trusted. Rounding of the sums is taken off. -infinity where a
// column without a bound stands in the way.
double safeDualBound(const LinearProgram& program, const std::vector<double>& row_duals);

}  // namespace ebbtide::scheduler
