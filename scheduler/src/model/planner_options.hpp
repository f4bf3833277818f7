// Reading of PlannerOptions::named.
#pragma once

#include <initializer_list>
#include <string_view>

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

// Schedule steps that a local search simulates if no option says otherwise: one to two seconds.
inline constexpr std::int64_t kDefaultSearchWork = 80'000'000;

// The option `work`, with that default.
PlannerOption workOption();

// Throws std::invalid_argument naming the first option that the planner does not list.
void rejectUnknownOptions(const PlannerOptions& options, const PlannerInfo& info);
// The option's value, `otherwise` if it is not there. Throws std::invalid_argument if it is none of
// `allowed`.
std::string choiceOption(const PlannerOptions& options, const std::string& name,
                         std::initializer_list<std::string_view> allowed,
                         const std::string& otherwise);
// Throws std::invalid_argument if the option is there but is not an integer of at least 0.
std::int64_t integerOption(const PlannerOptions& options, const std::string& name,
                           std::int64_t otherwise);

}  // namespace ebbtide::scheduler
