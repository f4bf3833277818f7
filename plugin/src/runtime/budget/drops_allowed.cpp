#include "runtime/budget/drops_allowed.hpp"

namespace ebbtide::plugin {

void DropsAllowed::spillOnly(const std::string& why) {
  if (!only_spills_.exchange(true))
    debug_("without a plan values are spilled, not computed again, from now on: " + why);
}

void DropsAllowed::keepEverything(const std::string& why) {
  if (keeps_everything_.exchange(true)) return;
  warn_("nothing is dropped or spilled from now on, as in PyTorch alone: " + why);
}

void DropsAllowed::disable(const std::string& why) {
  if (disabled_.exchange(true)) return;
  trained_.goOver();  // nothing is given up any more
  warn_("switched to pass-through, training goes on as PyTorch runs it: " + why);
}

}  // namespace ebbtide::plugin
