// Reading of PlannerOptions::named.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

// Schedule steps that a local search simulates if no option says otherwise: one to two seconds.
inline constexpr std::int64_t kDefaultSearchWork = 80'000'000;

// Throws std::invalid_argument naming the first option that is not known.
void rejectUnknownOptions(const PlannerOptions& options,
                          std::initializer_list<std::string_view> known);
// Throws std::invalid_argument if the option is there but is not an integer of at least 0.
std::int64_t integerOption(const PlannerOptions& options, const std::string& name,
                           std::int64_t otherwise);

}  // namespace ebbtide::scheduler
