#include "pipeline/step_pieces.hpp"

#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

class Cutter {
 public:
  explicit Cutter(const Trace& trace) : trace_(trace) {}

  StepPieces cut() {
    for (at_ = 0; at_ < trace_.events.size(); ++at_) apply(trace_.events[at_]);
    close();
    return std::move(out_);
  }

 private:
  void apply(const TraceEvent& event) {
    switch (event.kind) {
      case Kind::kMessage:
        close();
        out_.messages.push_back({at_, event.id, open_});
        return;
      case Kind::kScopeBegin:
        beginScope(event.id);
        return;
      case Kind::kScopeEnd:
        if (open_ == kNone || event.id != scope_) return;
        close();
        out_.scopes[open_].end_event = at_ + 1;
        open_ = kNone;
        return;
      case Kind::kBackwardPass:
        close();
        begin(true);
        return;
      case Kind::kBackwardNode:
        resumePass();
        return;
      case Kind::kOpBegin:
        if (!in_piece_ || out_.pieces.back().backward) {
          after_pass_ = in_piece_;
          close();
          begin(false);
        }
        return;
      default:
        return;
    }
  }

  void beginScope(std::int32_t id) {
    if (open_ != kNone) return;
    std::vector<ActionLabel> labels = labelsOf(trace_.scopes[id].name);
    if (labels.empty()) return;
    close();
    scope_ = id;
    open_ = static_cast<std::int32_t>(out_.scopes.size());
    out_.scopes.push_back({std::move(labels), at_, trace_.events.size()});
  }

  // A node after ops and no new pass: these are the pass's own (checkpoints, hooks).
  void resumePass() {
    if (in_piece_ && out_.pieces.back().backward) return;
    if (in_piece_ && after_pass_) {
      out_.pieces.pop_back();
      after_pass_ = false;
      return;
    }
    close();
    begin(true);
  }

  void begin(bool backward) {
    out_.pieces.push_back({backward, at_, at_ + 1, open_});
    in_piece_ = true;
    after_pass_ = after_pass_ && !backward;
  }

  void close() {
    if (in_piece_) out_.pieces.back().end_event = at_;
    in_piece_ = false;
    if (trace_.events.size() == at_ || trace_.events[at_].kind != Kind::kOpBegin)
      after_pass_ = false;
  }

  const Trace& trace_;
  StepPieces out_;
  std::size_t at_ = 0;
  std::int32_t scope_ = kNone, open_ = kNone;  // the open scope that names actions: in both lists
  bool in_piece_ = false;
  bool after_pass_ = false;  // the piece came right after a pass
};

}  // namespace

StepPieces cutIntoPieces(const Trace& trace) {
  return Cutter(trace).cut();
}

}  // namespace ebbtide::scheduler
