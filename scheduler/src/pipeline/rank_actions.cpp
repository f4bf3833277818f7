#include "ebbtide/scheduler/rank_actions.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "pipeline/action_label.hpp"
#include "pipeline/busy_time.hpp"
#include "pipeline/stage_parts.hpp"
#include "pipeline/step_drafts.hpp"
#include "pipeline/use_owners.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

std::string passAt(const char* direction, const StepDraft& draft) {
  return std::string("the ") + direction + " pass at event " + std::to_string(draft.first_event);
}

class Recogniser {
 public:
  explicit Recogniser(const Trace& trace) : trace_(trace), step_(cutIntoPieces(trace)) {}

  RankActions recognise() {
    checkMessages();
    drafts_ = draftActions(trace_, step_);
    chunk_of_.assign(drafts_.size(), kNone);
    findForwards();
    findBackwards();
    keepChunks();
    makeActions();
    nameBackwards();
    giveMessages();
    giveTimes();
    giveParts();
    return std::move(out_);
  }

 private:
  void checkMessages() const {
    bool sends = false, receives = false;
    for (const TraceMessage& message : trace_.messages) {
      (message.receive ? receives : sends) = true;
      if (message.receive && message.peer == kNone) refuse("it receives from any rank");
    }
    if (!sends) refuse("it sends nothing");
    if (!receives) refuse("it receives nothing");
  }

  // Where some are named only those are; what else computes is not the pipeline's.
  void findForwards() {
    const bool named = std::any_of(drafts_.begin(), drafts_.end(), [](const StepDraft& draft) {
      return draft.label && !draft.backward;
    });
    forward_at_.assign(step_.pieces.size(), kNone);
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (drafts_[i].backward || drafts_[i].label.has_value() != named) continue;
      chunk_of_[i] = static_cast<std::int32_t>(forwards_.size());
      for (const std::size_t piece : drafts_[i].pieces) forward_at_[piece] = chunk_of_[i];
      forwards_.push_back(i);
    }
  }

  void findBackwards() {
    std::vector<bool> asked(step_.pieces.size(), false);
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      const StepDraft& draft = drafts_[i];
      if (!draft.backward) continue;
      if (draft.label)
        chunk_of_[i] = forwardNamed(draft);
      else
        asked[draft.pieces.front()] = true;
    }
    UseOwners owners = ownersOfUses(trace_, step_, forward_at_, asked);
    if (!owners.refusal.empty()) refuse(owners.refusal);
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      const StepDraft& draft = drafts_[i];
      if (!draft.backward) continue;
      if (!draft.label) {
        chunk_of_[i] = owners.forward_of[draft.pieces.front()];
        if (chunk_of_[i] == kNone) chunk_of_[i] = chunkJustBefore(i);
      }
      if (drafts_[forwards_[chunk_of_[i]]].first_event > draft.first_event) {
        refuse(passAt("backward", draft) + " comes before its forward");
      }
    }
    saves_ = std::move(owners.saves);
    saves_.resize(forwards_.size(), false);
  }

  std::int32_t forwardNamed(const StepDraft& backward) const {
    std::int32_t found = kNone;
    for (std::size_t i = 0; i < forwards_.size(); ++i) {
      const auto& label = drafts_[forwards_[i]].label;
      if (!label || label->microbatch != backward.label->microbatch ||
          label->stage != backward.label->stage) {
        continue;
      }
      if (found != kNone) refuse(passAt("backward", backward) + " has the name of two forwards");
      found = static_cast<std::int32_t>(i);
    }
    if (found == kNone) refuse(passAt("backward", backward) + " has the name of no forward");
    return found;
  }

  // A pass that reads nothing goes with the one right before it.
  std::int32_t chunkJustBefore(std::size_t draft) const {
    if (draft == 0 || !drafts_[draft - 1].backward || drafts_[draft - 1].label ||
        messageWithin(drafts_[draft - 1].end_event, drafts_[draft].first_event)) {
      refuse(passAt("backward", drafts_[draft]) + " reads nothing that a forward pass saved");
    }
    return chunk_of_[draft - 1];
  }

  bool messageWithin(std::size_t first, std::size_t end) const {
    return std::any_of(step_.messages.begin(), step_.messages.end(),
                       [&](const StepMessage& m) { return m.event >= first && m.event < end; });
  }

  // Forwards with a backward are chunks. What else computes may be anything, unless it is named or
  // saved something.
  void keepChunks() {
    std::vector<bool> read(forwards_.size(), false);
    std::size_t last_backward = 0;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (!drafts_[i].backward) continue;
      read[chunk_of_[i]] = true;
      last_backward = drafts_[i].first_event;
    }
    std::vector<std::int32_t> number(forwards_.size(), kNone);
    for (std::size_t i = 0; i < forwards_.size(); ++i) {
      const StepDraft& draft = drafts_[forwards_[i]];
      const bool saved = saves_[i] && draft.first_event < last_backward;
      if (!read[i] && (draft.label || saved)) {
        refuse(passAt("forward", draft) + " has no backward pass");
      }
      if (!read[i]) continue;
      number[i] = static_cast<std::int32_t>(out_.chunks.size());
      RankChunk chunk;
      if (draft.label) {
        chunk.stage = draft.label->stage;
        chunk.microbatch = draft.label->microbatch;
      }
      out_.chunks.push_back(chunk);
    }
    if (out_.chunks.empty()) refuse("no backward pass reads what a forward pass saved");
    for (std::int32_t& chunk : chunk_of_) chunk = chunk == kNone ? kNone : number[chunk];
  }

  // Backward passes of a chunk with nothing else in between are one action.
  void makeActions() {
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (chunk_of_[i] == kNone) continue;
      const StepDraft& draft = drafts_[i];
      RankAction action;
      action.kind = draft.namesKind() ? draft.label->kind
                    : draft.backward  ? Kind::kBackward
                                      : Kind::kForward;
      action.chunk = chunk_of_[i];
      action.first_event = draft.first_event;
      action.end_event = draft.end_event;
      if (!out_.actions.empty() && draft.backward && !draft.namesKind()) {
        RankAction& before = out_.actions.back();
        if (before.chunk == action.chunk && before.kind == Kind::kBackward && !named_.back() &&
            !messageWithin(before.end_event, action.first_event)) {
          before.end_event = action.end_event;
          continue;
        }
      }
      out_.actions.push_back(action);
      named_.push_back(draft.namesKind());
    }
    out_.tail_event = out_.actions.back().end_event;
  }

  void nameBackwards() {
    std::vector<std::vector<std::size_t>> of_chunk(out_.chunks.size());
    for (std::size_t i = 0; i < out_.actions.size(); ++i) {
      if (out_.actions[i].kind != Kind::kForward) of_chunk[out_.actions[i].chunk].push_back(i);
    }
    for (const std::vector<std::size_t>& backwards : of_chunk) {
      const std::string first =
          "the backward pass at event " + std::to_string(out_.actions[backwards[0]].first_event);
      if (backwards.size() > 2) refuse(first + " is one of more than two of its forward pass");
      if (backwards.size() == 2 && !named_[backwards[0]] && !named_[backwards[1]]) {
        out_.actions[backwards[0]].kind = Kind::kInputBackward;
        out_.actions[backwards[1]].kind = Kind::kWeightBackward;
      }
      const Kind last = backwards.size() == 2 ? Kind::kWeightBackward : Kind::kBackward;
      const bool parts =
          backwards.size() == 1 || out_.actions[backwards[0]].kind == Kind::kInputBackward;
      if (!parts || out_.actions[backwards.back()].kind != last) {
        refuse(first + " and what is named of its microbatch are neither whole nor two parts");
      }
    }
  }

  void giveMessages() {
    for (const StepMessage& at : step_.messages) {
      const TraceMessage& message = trace_.messages[at.message];
      const bool named = at.scope != kNone && step_.scopes[at.scope].isOfMessages();
      const std::size_t action = named             ? actionNamed(at)
                                 : message.receive ? readerAfter(at)
                                                   : senderBefore(at);
      (message.receive ? out_.actions[action].received : out_.actions[action].sent)
          .push_back({at.message, message.peer, message.bytes});
    }
  }

  std::size_t actionNamed(const StepMessage& at) const {
    const ActionLabel& label = step_.scopes[at.scope].labels.front();
    for (std::size_t i = 0; i < out_.actions.size(); ++i) {
      const RankAction& action = out_.actions[i];
      const RankChunk& chunk = out_.chunks[action.chunk];
      if (chunk.stage == label.stage && chunk.microbatch == label.microbatch &&
          action.kind != Kind::kWeightBackward &&
          (action.kind == Kind::kForward) == label.isForward()) {
        return i;
      }
    }
    refuse("the message at event " + std::to_string(at.event) + " is named for no action");
  }

  std::size_t senderBefore(const StepMessage& at) const {
    for (std::size_t i = out_.actions.size(); i-- > 0;) {
      const RankAction& action = out_.actions[i];
      if (action.first_event < at.event && action.kind != Kind::kWeightBackward) return i;
    }
    refuse("the message at event " + std::to_string(at.event) + " is sent before the first action");
  }

  std::size_t readerAfter(const StepMessage& at) const {
    for (std::size_t i = 0; i < out_.actions.size(); ++i) {
      const RankAction& action = out_.actions[i];
      if (action.end_event > at.event && action.kind != Kind::kWeightBackward) return i;
    }
    refuse("the message at event " + std::to_string(at.event) +
           " is received after the last action");
  }

  // An action begins where the one before is known to have ended: at the first message or scope
  // behind it, else at its own first event.
  void giveTimes() {
    const BusyTime time(trace_);
    const auto boundary = [&](std::size_t from, std::size_t to) {
      for (std::size_t at = from; at <= to && at < trace_.events.size(); ++at) {
        if (time.isMark(at)) return time.at(at);
      }
      return time.at(to);
    };
    Nanoseconds begin = 0;
    for (std::size_t at = 0; at <= out_.actions[0].first_event; ++at) {
      if (!time.isMark(at)) continue;
      begin = time.at(at);
      break;
    }
    out_.once_ns = begin;
    for (std::size_t i = 0; i < out_.actions.size(); ++i) {
      RankAction& action = out_.actions[i];
      const bool last = i + 1 == out_.actions.size();
      const Nanoseconds end =
          last ? boundary(action.end_event, firstMarkFrom(time, action.end_event))
               : boundary(action.end_event,
                          std::max(action.end_event, out_.actions[i + 1].first_event));
      action.busy_ns = std::max<Nanoseconds>(0, end - begin);
      begin = std::max(begin, end);
    }
    out_.once_ns += time.at(trace_.events.size()) - begin;
  }

  // Of the last action: the message or the scope's end that follows with no work in between.
  std::size_t firstMarkFrom(const BusyTime& time, std::size_t from) const {
    for (std::size_t at = from; at < trace_.events.size(); ++at) {
      if (time.isMark(at)) return at;
      if (trace_.events[at].kind == TraceEvent::Kind::kOpBegin) break;
    }
    return from;
  }

  void giveParts() {
    std::vector<std::int32_t> forward_of_op(trace_.ops.size(), kNone);
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (drafts_[i].backward || chunk_of_[i] == kNone) continue;
      for (const std::size_t piece : drafts_[i].pieces) {
        for (std::size_t at = step_.pieces[piece].first_event; at < step_.pieces[piece].end_event;
             ++at) {
          if (trace_.events[at].kind != TraceEvent::Kind::kOpBegin) continue;
          forward_of_op[trace_.events[at].id] = chunk_of_[i];
        }
      }
    }
    const bool named = std::all_of(out_.chunks.begin(), out_.chunks.end(),
                                   [](const RankChunk& chunk) { return chunk.stage != kNone; });
    if (named) {
      partsByName();
      return;
    }
    const StageParts parts =
        partsOf(trace_, forward_of_op, static_cast<std::int32_t>(out_.chunks.size()));
    if (!parts.refusal.empty()) refuse(parts.refusal);
    out_.parts = parts.parts;
    for (std::size_t i = 0; i < out_.chunks.size(); ++i) {
      out_.chunks[i].part = parts.part_of[i];
      out_.chunks[i].previous = parts.previous[i];
    }
  }

  void partsByName() {
    std::vector<std::int32_t> stages;
    for (RankChunk& chunk : out_.chunks) {
      const auto known = std::find(stages.begin(), stages.end(), chunk.stage);
      chunk.part = static_cast<std::int32_t>(known - stages.begin());
      if (known == stages.end()) stages.push_back(chunk.stage);
    }
    out_.parts = static_cast<std::int32_t>(stages.size());
  }

  const Trace& trace_;
  StepPieces step_;
  std::vector<StepDraft> drafts_;
  std::vector<std::size_t> forwards_;     // drafts that may be chunks
  std::vector<std::int32_t> forward_at_;  // of each piece: place in forwards_
  std::vector<std::int32_t> chunk_of_;    // of each draft: place in forwards_, then the chunk
  std::vector<bool> saves_;               // of each of forwards_
  std::vector<bool> named_;               // of each action: do scopes name its kind?
  RankActions out_;
};

}  // namespace

RankActions recogniseActions(const Trace& trace) {
  try {
    return Recogniser(trace).recognise();
  } catch (const std::invalid_argument& error) {
    RankActions refused;
    refused.refusal = error.what();
    return refused;
  }
}

std::vector<std::int32_t> namedStages(const Trace& trace) {
  std::set<std::int32_t> stages;
  for (const TraceScope& scope : trace.scopes) {
    for (const ActionLabel& label : labelsOf(scope.name)) {
      if (label.stage != kNone && label.role != ActionLabel::Role::kMessage)
        stages.insert(label.stage);
    }
  }
  return {stages.begin(), stages.end()};
}

}  // namespace ebbtide::scheduler
