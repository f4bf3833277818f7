#include "planner_input.hpp"

#include <stdexcept>

namespace ebbtide::cli {

void PlannerInput::addTo(CLI::App& verb, const std::string& deadline_meaning) {
  verb.add_option("--planner", planner, "auto, or a name from `ebbtide planners`")
      ->capture_default_str()
      ->type_name("NAME");
  verb.add_option("--option", named, "k=v, an option of that planner; may be repeated")
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("k=v");
  SearchLimits::addTo(verb, deadline_meaning);
}

scheduler::PlannerOptions PlannerInput::options() const {
  scheduler::PlannerOptions options;
  options.seed = seed;
  options.threads = threads;
  options.deadline = deadline();
  for (const std::string& option : named) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw std::invalid_argument("--option " + option + ": write name=value");
    }
    const auto [at, added] =
        options.named.emplace(option.substr(0, equals), option.substr(equals + 1));
    if (!added) throw std::invalid_argument("--option " + at->first + " is given twice");
  }
  return options;
}

}  // namespace ebbtide::cli
