#include "pipeline/step_drafts.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

class Drafter {
 public:
  Drafter(const Trace& trace, const StepPieces& step) : trace_(trace), step_(step) {}

  std::vector<StepDraft> draft() {
    draft_of_scope_.assign(step_.scopes.size(), kNone);
    for (std::size_t i = 0; i < step_.pieces.size(); ++i) add(i);
    addEmptyScopes();
    std::stable_sort(drafts_.begin(), drafts_.end(), [](const StepDraft& a, const StepDraft& b) {
      return a.first_event < b.first_event;
    });
    return std::move(drafts_);
  }

 private:
  static bool namesOneAction(const StepScope& scope) {
    return scope.labels.size() == 1 && scope.labels[0].role == ActionLabel::Role::kAction;
  }

  void add(std::size_t number) {
    const StepPiece& piece = step_.pieces[number];
    if (piece.scope == kNone || step_.scopes[piece.scope].isOfMessages()) {
      addUnnamed(number);
      return;
    }
    const StepScope& scope = step_.scopes[piece.scope];
    std::int32_t& known = draft_of_scope_[piece.scope];
    if (known != kNone &&
        (namesOneAction(scope) || (!piece.backward && !drafts_[known].backward))) {
      append(drafts_[known], number);
      return;
    }
    const ActionLabel label = labelFor(scope, piece);
    const bool backward =
        label.role == ActionLabel::Role::kHint ? piece.backward : !label.isForward();
    if (label.role == ActionLabel::Role::kHint && !backward && hasForward(label)) {
      addUnnamed(number);  // beside its backward pass
      return;
    }
    known = static_cast<std::int32_t>(drafts_.size());
    drafts_.push_back({backward, label, {number}, piece.first_event, piece.end_event});
  }

  bool hasForward(const ActionLabel& label) const {
    return std::any_of(drafts_.begin(), drafts_.end(), [&](const StepDraft& draft) {
      return draft.label && !draft.backward && draft.label->stage == label.stage &&
             draft.label->microbatch == label.microbatch;
    });
  }

  static ActionLabel labelFor(const StepScope& scope, const StepPiece& piece) {
    if (namesOneAction(scope)) return scope.labels[0];
    for (const ActionLabel& label : scope.labels) {
      if (label.role == ActionLabel::Role::kHint || label.isForward() != piece.backward)
        return label;
    }
    throw std::invalid_argument(
        "the scope at event " + std::to_string(scope.first_event) +
        (piece.backward ? " runs a backward pass" : " runs a forward pass") +
        " that it does not name");
  }

  // What reads the output of a forward that is named, right behind it, is part of it: its loss.
  void addUnnamed(std::size_t number) {
    const StepPiece& piece = step_.pieces[number];
    if (!piece.backward && !drafts_.empty()) {
      StepDraft& before = drafts_.back();
      if (before.label && !before.backward && followsAtOnce(before, piece) &&
          reads(piece, before)) {
        append(before, number);
        return;
      }
    }
    drafts_.push_back({piece.backward, {}, {number}, piece.first_event, piece.end_event});
  }

  bool followsAtOnce(const StepDraft& before, const StepPiece& piece) const {
    return std::none_of(step_.messages.begin(), step_.messages.end(), [&](const StepMessage& m) {
      return m.event >= before.end_event && m.event < piece.first_event && !inScopeOf(before, m);
    });
  }

  bool inScopeOf(const StepDraft& draft, const StepMessage& message) const {
    return message.scope != kNone && message.scope == step_.pieces[draft.pieces.back()].scope;
  }

  bool reads(const StepPiece& piece, const StepDraft& before) const {
    std::vector<bool> made(trace_.ops.size(), false);
    for (const std::size_t i : before.pieces) {
      forEachOp(step_.pieces[i], [&](OpId op) { made[op] = true; });
    }
    bool some = false;
    forEachOp(piece, [&](OpId op) {
      for (const ValueId v : trace_.ops[op].inputs) {
        const OpId producer = trace_.values[v].producer;
        some = some || (producer != kNone && made[producer]);
      }
    });
    return some;
  }

  template <typename Visit>
  void forEachOp(const StepPiece& piece, const Visit& visit) const {
    for (std::size_t at = piece.first_event; at < piece.end_event; ++at) {
      if (trace_.events[at].kind == Kind::kOpBegin) visit(trace_.events[at].id);
    }
  }

  void append(StepDraft& draft, std::size_t number) const {
    draft.pieces.push_back(number);
    draft.end_event = step_.pieces[number].end_event;
  }

  // The input gradient of a first stage has nothing to compute.
  void addEmptyScopes() {
    for (std::size_t i = 0; i < step_.scopes.size(); ++i) {
      const StepScope& scope = step_.scopes[i];
      if (draft_of_scope_[i] != kNone || !namesOneAction(scope)) continue;
      drafts_.push_back(
          {!scope.labels[0].isForward(), scope.labels[0], {}, scope.first_event, scope.end_event});
    }
  }

  const Trace& trace_;
  const StepPieces& step_;
  std::vector<std::int32_t> draft_of_scope_;  // the last one
  std::vector<StepDraft> drafts_;
};

}  // namespace

std::vector<StepDraft> draftActions(const Trace& trace, const StepPieces& step) {
  return Drafter(trace, step).draft();
}

}  // namespace ebbtide::scheduler
