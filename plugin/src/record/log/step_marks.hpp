// StepMarks: what one thread sends, receives and says that it does, passed on to the log of its
// step. Torch-free.
//
//   … update ─► receive, "PP:1F0" begins: held ─► first op of the next step: its log gets them
//
// A stage asks for its first input before it runs anything that is trained, so that the step which
// this belongs to has not begun. Nothing is held that can be none of its: a stage has nothing to
// send before, and what comes without gradients is an evaluation; what was held until then is that
// evaluation's too.
//
// Thread rule: of the thread that it belongs to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/log/event_log.hpp"

namespace ebbtide::plugin {

// Of torch's pipelines: "PP:2F0", "Forward 3", "Backward 3".
bool namesPipelineAction(std::string_view scope) noexcept;

class StepMarks {
 public:
  using Token = std::uint64_t;  // of a scope; 0: none
  enum class Place : std::uint8_t {
    kInStep,
    kBetween,     // no step is open, or the update of the last one has been seen
    kEvaluation,  // the same, without gradients
  };

  // Would a mark be kept? For who would have to make it.
  bool wanted(Place place) const noexcept { return log_ != nullptr || place == Place::kBetween; }

  void noteMessage(const GroupMessage& message, Place place);
  Token beginScope(std::string name, Place place);
  void endScope(Token token);
  // The hint's scope, until the next one or endStage().
  void beginStage(std::int32_t stage, std::int32_t microbatch, Place place);
  void endStage();

  // A step has begun or goes on, with this log (nullptr: it writes no trace): what is held is its.
  void joinStep(const std::shared_ptr<EventLog>& log);
  bool holds() const noexcept { return !held_.empty(); }
  // It is over: the next ones are held. Ends the scopes that are open.
  void leaveStep();

 private:
  static constexpr std::size_t kMostHeld = 256;

  struct Held {
    enum class Kind : std::uint8_t { kMessage, kScopeBegin, kScopeEnd };
    Kind kind = Kind::kMessage;
    GroupMessage message = {};
    std::string name = {};
    Token token = 0;
    ThreadMoment moment = {};
  };

  void hold(Held mark);

  std::shared_ptr<EventLog> log_;
  std::vector<Held> held_;
  std::vector<std::pair<Token, std::int32_t>> open_;  // and its number in log_
  Token last_token_ = 0;
  Token stage_ = 0;
};

}  // namespace ebbtide::plugin
