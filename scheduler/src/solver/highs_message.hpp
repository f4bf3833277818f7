// What goes to HiGHS beside the program, and what comes back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::scheduler {

struct HighsParameters {
  double seconds = 0;  // until it should answer
  std::int32_t threads = 1;
  std::int32_t seed = 0;
  std::int32_t nodes = 0;     // of the search tree that it may open
  std::vector<double> start;  // a solution to begin from; empty: none

  std::string toBytes() const;
  static HighsParameters fromBytes(std::string_view bytes);  // throws std::runtime_error
};

struct HighsSolution {
  enum class Status : std::int32_t {
    kOptimal,     // proven, within 1e-6 of each row; without a gap
    kInfeasible,  // proven: no solution
    kUnproven,    // ended by its time or for another reason
  };
  Status status = Status::kUnproven;
  double objective = 0;           // of `values`
  double bound = 0;               // of all solutions, as HiGHS has it; of kOptimal
  std::vector<double> values;     // per column; empty: no solution known
  std::vector<double> row_duals;  // of a program without integer columns

  std::string toBytes() const;
  static HighsSolution fromBytes(std::string_view bytes);  // throws std::runtime_error
};

}  // namespace ebbtide::scheduler
