#include "solver/cp_sat_model.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

using Integers = std::vector<std::int64_t>;

template <class Index>
Integers integers(const std::vector<Index>& values) {
  return Integers(values.begin(), values.end());
}

// vars = 1, coeffs = 2: of LinearExpressionProto and LinearConstraintProto.
ProtobufMessage linear(const CpExpression& expression) {
  ProtobufMessage message;
  Integers variables, coefficients;
  for (const auto& [variable, coefficient] : expression.terms) {
    variables.push_back(variable);
    coefficients.push_back(coefficient);
  }
  message.packed(1, variables).packed(2, coefficients);
  return message;
}

ProtobufMessage expression(const CpExpression& expression) {
  return linear(expression).integer(3, expression.offset);
}

}  // namespace

CpVariable CpSatModel::addVariable(std::int64_t least, std::int64_t most) {
  message_.message(2, ProtobufMessage().packed(2, {least, most}));
  return static_cast<CpVariable>(variables_++);
}

CpVariable CpSatModel::addVariable(const Integers& increasing) {
  Integers domain;  // closed intervals that do not touch
  for (const std::int64_t value : increasing) {
    if (!domain.empty() && domain.back() + 1 == value) {
      domain.back() = value;
    } else {
      domain.insert(domain.end(), {value, value});
    }
  }
  message_.message(2, ProtobufMessage().packed(2, domain));
  return static_cast<CpVariable>(variables_++);
}

CpInterval CpSatModel::addConstraint(int field, const ProtobufMessage& constraint,
                                     const std::vector<CpLiteral>& enforced) {
  ProtobufMessage outer;
  if (!enforced.empty()) outer.packed(2, integers(enforced));
  message_.message(3, outer.message(field, constraint));
  return constraints_++;
}

void CpSatModel::addLinear(const CpExpression& terms, std::int64_t least, std::int64_t most,
                           const std::vector<CpLiteral>& enforced) {
  addConstraint(12, linear(terms).packed(3, {least, most}), enforced);
}

void CpSatModel::addOr(const std::vector<CpLiteral>& literals,
                       const std::vector<CpLiteral>& enforced) {
  addConstraint(3, ProtobufMessage().packed(1, integers(literals)), enforced);
}

CpInterval CpSatModel::addInterval(const CpExpression& start, const CpExpression& size,
                                   const CpExpression& end,
                                   const std::vector<CpLiteral>& enforced) {
  return addConstraint(19,
                       ProtobufMessage()
                           .message(4, expression(start))
                           .message(5, expression(end))
                           .message(6, expression(size)),
                       enforced);
}

void CpSatModel::addNoOverlap(const std::vector<CpInterval>& intervals) {
  addConstraint(20, ProtobufMessage().packed(1, integers(intervals)), {});
}

void CpSatModel::addCumulative(const std::vector<CpInterval>& intervals, const Integers& demands,
                               const CpExpression& capacity) {
  ProtobufMessage message;
  message.message(1, expression(capacity)).packed(2, integers(intervals));
  for (const std::int64_t demand : demands) {
    message.message(3, expression(CpExpression::constant(demand)));
  }
  addConstraint(22, message, {});
}

void CpSatModel::addReservoir(const std::vector<LevelChange>& changes, std::int64_t least) {
  ProtobufMessage message;
  std::int64_t most = 0;
  Integers active;
  for (const LevelChange& change : changes) {
    message.message(3, expression(change.time));
    message.message(6, expression(CpExpression::constant(change.change)));
    active.push_back(change.active);
    most += std::max<std::int64_t>(change.change, 0);
  }
  addConstraint(24, message.packed(5, active).integer(1, least).integer(2, most), {});
}

void CpSatModel::minimize(const CpExpression& terms) {
  Integers variables, coefficients;
  for (const auto& [variable, coefficient] : terms.terms) {
    variables.push_back(variable);
    coefficients.push_back(coefficient);
  }
  message_.message(4, ProtobufMessage()
                          .packed(1, variables)
                          .packed(4, coefficients)
                          .real(2, static_cast<double>(terms.offset)));
}

void CpSatModel::hint(const std::vector<std::pair<CpVariable, std::int64_t>>& values) {
  Integers variables, hinted;
  for (const auto& [variable, value] : values) {
    variables.push_back(variable);
    hinted.push_back(value);
  }
  message_.message(6, ProtobufMessage().packed(1, variables).packed(2, hinted));
}

std::string CpSatParameters::wire() const {
  ProtobufMessage message;
  if (seconds > 0) message.real(36, seconds);
  if (deterministic_seconds > 0) message.real(67, deterministic_seconds);
  message.integer(206, workers)
      .integer(136, interleave)
      .integer(31, static_cast<std::int64_t>(seed & 0x7fffffff))
      .integer(86, presolve)
      .integer(110, 0)   // probing takes the whole limit on reservoirs
      .integer(182, 0)   // reservoirs are propagated as they are, not expanded
      .integer(135, 0)   // signals are not the solver's
      .integer(186, 0);  // nor is standard output
  return message.wire();
}

std::optional<CpSatResponse> CpSatResponse::fromWire(std::string_view wire) {
  const auto fields = protobufFields(wire);
  if (!fields) return std::nullopt;
  CpSatResponse response;
  for (const ProtobufField& field : *fields) {
    if (field.number == 1) {
      if (field.bits > static_cast<std::uint64_t>(Status::kOptimal)) return std::nullopt;
      response.status = static_cast<Status>(field.bits);
    } else if (field.number == 2) {
      const auto values = field.integers();
      if (!values) return std::nullopt;
      response.values.insert(response.values.end(), values->begin(), values->end());
    } else if (field.number == 3) {
      response.objective = field.real();
    } else if (field.number == 4) {
      response.bound = field.real();
    } else if (field.number == 20) {
      response.message = field.bytes;
    }
  }
  return response;
}

}  // namespace ebbtide::scheduler
