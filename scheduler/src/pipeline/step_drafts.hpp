// What a recorded step does one after the other, before it is known what belongs together.
#pragma once

#include <optional>
#include <vector>

#include "pipeline/step_pieces.hpp"

namespace ebbtide::scheduler {

struct StepDraft {
  bool backward = false;
  std::optional<ActionLabel> label;
  std::vector<std::size_t> pieces;             // none: a scope in which nothing is computed
  std::size_t first_event = 0, end_event = 0;  // of the pieces, else of the scope

  bool namesKind() const { return label && label->role == ActionLabel::Role::kAction; }
};

// By rising events. A scope that names one action is one draft. Throws std::invalid_argument where
// a scope computes what it does not name.
std::vector<StepDraft> draftActions(const Trace& trace, const StepPieces& step);

}  // namespace ebbtide::scheduler
