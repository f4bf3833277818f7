#include "plan/plan_alignment.hpp"

namespace ebbtide::plugin {

void PlanAlignment::expect(std::size_t planned) {
  expected_ = planned;
  planned_.clear();
  steps_.clear();
  planned_.reserve(planned);
  steps_.reserve(planned);
}

void PlanAlignment::add(bool planned) {
  const Id its_number = planned ? next() : kNone;
  planned_.push_back(its_number);
  if (its_number != kNone) steps_.push_back(static_cast<Id>(planned_.size()) - 1);
}

void PlanAlignment::removeLast() {
  if (planned_.back() != kNone) steps_.pop_back();
  planned_.pop_back();
}

void PlanAlignment::unplanFrom(Id first) {
  while (!steps_.empty() && steps_.back() >= first) {
    planned_[steps_.back()] = kNone;
    steps_.pop_back();
  }
}

void PlanAlignment::adopt(Id step) {
  if (next() == kNone) return;
  planned_[step] = next();
  steps_.push_back(step);
}

}  // namespace ebbtide::plugin
