#include "search_limits.hpp"

#include <charconv>
#include <cstdlib>

namespace ebbtide::cli {
namespace {

constexpr double kMostSeconds = 1e6;
constexpr unsigned kMostThreads = 1024;

// CLI::Range lets "nan" pass.
std::string refuseNoTime(const std::string& text) {
  const double seconds = std::strtod(text.c_str(), nullptr);
  return seconds >= 0 && seconds <= kMostSeconds ? "" : "'" + text + "' is not 0 to 1e6 seconds";
}

// CLI11 wraps "-1" around, and holds what is too large at 2^64 - 1.
std::string refuseNoSeed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? "" : "'" + text + "' is not a whole number of 64 bits";
}

}  // namespace

void SearchLimits::addTo(CLI::App& verb, const std::string& deadline_meaning) {
  verb.add_option("--deadline", deadline_seconds, deadline_meaning)
      ->check(CLI::Validator(refuseNoTime, ""))
      ->capture_default_str()
      ->type_name("SECONDS");
  verb.add_option("--threads", threads, "to plan with, 1 to 1024")
      ->check(CLI::Range(1u, kMostThreads))
      ->capture_default_str();
  verb.add_option("--seed", seed, "for planners with random choices")
      ->check(CLI::Validator(refuseNoSeed, "NUMBER"))
      ->capture_default_str();
}

std::chrono::steady_clock::time_point SearchLimits::deadline() const {
  return std::chrono::steady_clock::now() +
         std::chrono::microseconds(static_cast<std::int64_t>(deadline_seconds * 1e6));
}

}  // namespace ebbtide::cli
