#include "runtime/programs/program_history.hpp"

#include <algorithm>
#include <iterator>

namespace ebbtide::plugin {

void ProgramHistory::add(std::uint64_t signature) {
  last_ = signature;
  steps_.push_back(signature);
  if (steps_.size() > kMost) steps_.pop_front();
}

std::uint64_t ProgramHistory::expected() const {
  std::uint64_t expected = 0;
  std::ptrdiff_t most_alike = 0;
  for (auto next = steps_.rbegin(); next != steps_.rend(); ++next) {
    const auto before = std::next(next);
    const auto differ = std::mismatch(before, steps_.rend(), steps_.rbegin());
    const std::ptrdiff_t alike = differ.first - before;
    if (alike <= most_alike) continue;
    most_alike = alike;
    expected = *next;
  }
  return expected;
}

}  // namespace ebbtide::plugin
