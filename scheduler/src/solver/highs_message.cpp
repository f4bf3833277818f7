#include "solver/highs_message.hpp"

#include <cstring>
#include <stdexcept>

namespace ebbtide::scheduler {
namespace {

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append(std::string& bytes, const std::vector<double>& numbers) {
  append(bytes, std::uint64_t{numbers.size()});
  if (numbers.empty()) return;
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
}

void takeBytes(std::string_view& bytes, void* to, std::size_t size) {
  if (bytes.size() < size) throw std::runtime_error("a message of HiGHS that is cut off");
  if (size > 0) std::memcpy(to, bytes.data(), size);
  bytes.remove_prefix(size);
}

template <class Number>
void take(std::string_view& bytes, Number& number) {
  takeBytes(bytes, &number, sizeof number);
}

void take(std::string_view& bytes, std::vector<double>& numbers) {
  std::uint64_t size = 0;
  takeBytes(bytes, &size, sizeof size);
  if (size > bytes.size() / sizeof(double)) {
    throw std::runtime_error("a message of HiGHS that is cut off");
  }
  numbers.resize(size);
  takeBytes(bytes, numbers.data(), size * sizeof(double));
}

}  // namespace

std::string HighsParameters::toBytes() const {
  std::string bytes;
  append(bytes, seconds);
  append(bytes, threads);
  append(bytes, seed);
  append(bytes, nodes);
  append(bytes, start);
  return bytes;
}

HighsParameters HighsParameters::fromBytes(std::string_view bytes) {
  HighsParameters parameters;
  take(bytes, parameters.seconds);
  take(bytes, parameters.threads);
  take(bytes, parameters.seed);
  take(bytes, parameters.nodes);
  take(bytes, parameters.start);
  return parameters;
}

std::string HighsSolution::toBytes() const {
  std::string bytes;
  append(bytes, static_cast<std::int32_t>(status));
  append(bytes, objective);
  append(bytes, bound);
  append(bytes, values);
  append(bytes, row_duals);
  return bytes;
}

HighsSolution HighsSolution::fromBytes(std::string_view bytes) {
  HighsSolution solution;
  std::int32_t status = 0;
  take(bytes, status);
  const bool known = status == static_cast<std::int32_t>(Status::kOptimal) ||
                     status == static_cast<std::int32_t>(Status::kInfeasible);
  solution.status = known ? static_cast<Status>(status) : Status::kUnproven;
  take(bytes, solution.objective);
  take(bytes, solution.bound);
  take(bytes, solution.values);
  take(bytes, solution.row_duals);
  return solution;
}

}  // namespace ebbtide::scheduler
