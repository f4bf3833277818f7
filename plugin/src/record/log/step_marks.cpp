#include "record/log/step_marks.hpp"

#include <algorithm>

namespace ebbtide::plugin {
namespace {

constexpr std::size_t kLongestName = 200;

bool isNumber(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char letter) { return letter >= '0' && letter <= '9'; });
}

bool isPrintable(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(),
                     [](char letter) { return letter >= ' ' && letter <= '~'; });
}

}  // namespace

bool namesPipelineAction(std::string_view scope) noexcept {
  if (scope.size() > kLongestName) return false;
  if (scope.starts_with("PP:")) return isPrintable(scope);
  for (const std::string_view direction : {"Forward ", "Backward "}) {
    if (scope.starts_with(direction)) return isNumber(scope.substr(direction.size()));
  }
  return false;
}

void StepMarks::noteMessage(const GroupMessage& message, Place place) {
  if (place == Place::kInStep) {
    if (log_ == nullptr) return;
    joinStep(log_);
    log_->addMessage(message, ThreadMoment::now());
    return;
  }
  if (place == Place::kEvaluation || !message.message.receive) {
    held_.clear();
    return;
  }
  hold({.kind = Held::Kind::kMessage, .message = message});
}

StepMarks::Token StepMarks::beginScope(std::string name, Place place) {
  if (!wanted(place)) return 0;
  if (place == Place::kEvaluation) {
    held_.clear();
    return 0;
  }
  const Token token = ++last_token_;
  if (place == Place::kBetween) {
    hold({.kind = Held::Kind::kScopeBegin, .name = std::move(name), .token = token});
    return token;
  }
  joinStep(log_);
  open_.emplace_back(token, log_->beginScope(std::move(name), ThreadMoment::now()));
  return token;
}

void StepMarks::endScope(Token token) {
  const auto open = std::find_if(open_.begin(), open_.end(),
                                 [token](const auto& scope) { return scope.first == token; });
  if (open != open_.end()) {
    log_->endScope(open->second, ThreadMoment::now());
    open_.erase(open);
    return;
  }
  const bool held = std::any_of(held_.begin(), held_.end(), [token](const Held& mark) {
    return mark.kind == Held::Kind::kScopeBegin && mark.token == token;
  });
  if (held) hold({.kind = Held::Kind::kScopeEnd, .token = token});
}

void StepMarks::beginStage(std::int32_t stage, std::int32_t microbatch, Place place) {
  endStage();
  stage_ = beginScope("ebbtide:" + std::to_string(stage) + ":" + std::to_string(microbatch), place);
}

void StepMarks::endStage() {
  if (stage_ != 0) endScope(std::exchange(stage_, 0));
}

void StepMarks::hold(Held mark) {
  if (held_.size() >= kMostHeld) held_.clear();  // no step waits for that many
  mark.moment = ThreadMoment::now();
  held_.push_back(std::move(mark));
}

void StepMarks::joinStep(const std::shared_ptr<EventLog>& log) {
  log_ = log;
  if (held_.empty()) return;
  const std::vector<Held> held = std::exchange(held_, {});
  if (log == nullptr) return;
  log->startAt(held.front().moment);
  for (const Held& mark : held) {
    switch (mark.kind) {
      case Held::Kind::kMessage:
        log->addMessage(mark.message, mark.moment);
        break;
      case Held::Kind::kScopeBegin:
        open_.emplace_back(mark.token, log->beginScope(mark.name, mark.moment));
        break;
      case Held::Kind::kScopeEnd: {
        const auto open = std::find_if(open_.begin(), open_.end(), [&mark](const auto& scope) {
          return scope.first == mark.token;
        });
        if (open == open_.end()) break;
        log->endScope(open->second, mark.moment);
        open_.erase(open);
      }
    }
  }
}

void StepMarks::leaveStep() {
  if (log_ != nullptr && !open_.empty()) {  // the time is asked of the system
    const ThreadMoment now = ThreadMoment::now();
    for (const auto& [token, scope] : open_) log_->endScope(scope, now);
  }
  open_.clear();
  log_.reset();
}

}  // namespace ebbtide::plugin
