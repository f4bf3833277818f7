// CpSatModel: a constraint program as CP-SAT reads it (CpModelProto), its parameters and response.
// Field numbers: ortools/sat/cp_model.proto and sat_parameters.proto of SolverWheel::kVersion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "solver/protobuf_wire.hpp"

namespace ebbtide::scheduler {

using CpVariable = std::int32_t;  // index of an integer variable
using CpLiteral = std::int32_t;   // a variable of domain {0, 1}; negated(x): not x
using CpInterval = std::int32_t;  // index of the constraint that defines it

constexpr CpLiteral negated(CpLiteral literal) {
  return -literal - 1;
}

struct CpExpression {  // sum of coefficient * variable, plus offset
  std::vector<std::pair<CpVariable, std::int64_t>> terms;
  std::int64_t offset = 0;

  static CpExpression variable(CpVariable variable, std::int64_t plus = 0) {
    return {{{variable, 1}}, plus};
  }
  static CpExpression constant(std::int64_t value) { return {{}, value}; }
};

class CpSatModel {
 public:
  CpVariable addVariable(std::int64_t least, std::int64_t most);
  CpVariable addVariable(const std::vector<std::int64_t>& increasing);  // one of these values
  CpLiteral addLiteral() { return addVariable(0, 1); }
  std::size_t variables() const { return variables_; }

  // All of these hold only where every literal of `enforced` does.
  // least <= sum of the terms <= most
  void addLinear(const CpExpression& terms, std::int64_t least, std::int64_t most,
                 const std::vector<CpLiteral>& enforced = {});
  void addOr(const std::vector<CpLiteral>& literals, const std::vector<CpLiteral>& enforced = {});
  // [start, end), of that size; there only where the literal holds.
  CpInterval addInterval(const CpExpression& start, const CpExpression& size,
                         const CpExpression& end, const std::vector<CpLiteral>& enforced = {});
  void addNoOverlap(const std::vector<CpInterval>& intervals);
  // At any time the demands of the intervals that hold it are at most the capacity in sum.
  void addCumulative(const std::vector<CpInterval>& intervals,
                     const std::vector<std::int64_t>& demands, const CpExpression& capacity);
  struct LevelChange {
    CpExpression time;
    std::int64_t change = 0;
    CpLiteral active = 0;
  };
  // After the changes of any time the level, 0 at first, is at least `least`.
  void addReservoir(const std::vector<LevelChange>& changes, std::int64_t least);
  void minimize(const CpExpression& terms);
  // Where the search begins: a value for each of some variables.
  void hint(const std::vector<std::pair<CpVariable, std::int64_t>>& values);

  const std::string& wire() const { return message_.wire(); }

 private:
  CpInterval addConstraint(int field, const ProtobufMessage& constraint,
                           const std::vector<CpLiteral>& enforced);

  ProtobufMessage message_;
  std::size_t variables_ = 0;
  CpInterval constraints_ = 0;
};

struct CpSatParameters {
  double seconds = 0;                // 0: no limit
  double deterministic_seconds = 0;  // likewise, in CP-SAT's measure of work
  unsigned workers = 1;
  bool interleave = false;  // with several workers: the same result each time, slower
  std::uint64_t seed = 0;
  bool presolve = true;

  std::string wire() const;
};

struct CpSatResponse {
  enum class Status { kUnknown, kInvalid, kFeasible, kInfeasible, kOptimal };
  Status status = Status::kUnknown;
  std::vector<std::int64_t> values;  // per variable; empty where there is no solution
  double objective = 0, bound = 0;
  std::string message;  // what is wrong with an invalid model

  // Nothing where the bytes are no response.
  static std::optional<CpSatResponse> fromWire(std::string_view wire);
};

}  // namespace ebbtide::scheduler
