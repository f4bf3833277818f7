// A recorded step cut where it sends, receives, begins a backward pass or names what it does.
#pragma once

#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "pipeline/action_label.hpp"

namespace ebbtide::scheduler {

// Ops of a forward pass, or a backward pass, with nothing but these in between.
struct StepPiece {
  bool backward = false;
  std::size_t first_event = 0, end_event = 0;
  std::int32_t scope = kNone;  // index into StepPieces::scopes: the outermost that names actions
};

struct StepScope {
  std::vector<ActionLabel> labels;
  std::size_t first_event = 0, end_event = 0;  // its begin, past its end

  bool isOfMessages() const { return labels.front().role == ActionLabel::Role::kMessage; }
};

struct StepMessage {
  std::size_t event = 0;
  std::int32_t message = 0;  // index into Trace::messages
  std::int32_t scope = kNone;
};

struct StepPieces {
  std::vector<StepPiece> pieces;  // all three by rising events
  std::vector<StepScope> scopes;
  std::vector<StepMessage> messages;
};

StepPieces cutIntoPieces(const Trace& trace);

}  // namespace ebbtide::scheduler
