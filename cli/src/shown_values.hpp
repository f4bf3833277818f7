// Values as every verb shows them; "-" for what is not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ebbtide::cli {

std::string shownSeconds(std::optional<double> seconds);     // "12.3 ms"
std::string shownBytes(std::optional<std::int64_t> bytes);   // "1.50 GiB"
std::string shownBudget(std::optional<std::int64_t> bytes);  // "none" for none
std::string shownShare(std::optional<double> ratio);         // "4.2%"
std::string shownCount(std::optional<std::int64_t> count);

}  // namespace ebbtide::cli
