// The arguments that bound a search: --deadline, --seed, and --threads, which each verb uses in its
// own way.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <string>

namespace ebbtide::cli {

struct SearchLimits {
  double deadline_seconds = 10;
  std::uint64_t seed = 0;
  unsigned threads = 1;

  void addTo(CLI::App& verb, const std::string& deadline_meaning);
  // Counts from now.
  std::chrono::steady_clock::time_point deadline() const;
};

}  // namespace ebbtide::cli
