// ThreadSteps: where the steps of one thread begin and end. Includes torch (by StepRun).
//
//   no step ──► first op that touches something trained: begin ──► …
//     ──► the program's hint (ebbtide_step); of a thread that gives none, what looks like an end:
//         parameters were written, Optimizer.step ran, nothing is left to run backward
//
// A step that a hint ends while saved tensors of it are left, in a program that runs such tensors
// backward later, waits until they have been: its trace and its plan go on beside the next steps'.
//
// Thread rule: of the thread that it belongs to, in whose storage it lives.
#pragma once

#include <memory>
#include <vector>

#include "execute/step_run.hpp"
#include "record/log/step_marks.hpp"

namespace ebbtide::plugin {

class ThreadSteps {
 public:
  ThreadSteps() = default;
  ~ThreadSteps();  // the thread's last steps end with it
  ThreadSteps(const ThreadSteps&) = delete;
  ThreadSteps& operator=(const ThreadSteps&) = delete;

  const std::shared_ptr<StepRun>& run() const noexcept { return run_; }  // nullptr between steps

  // Before an op. What runs before the first trained tensor prepares data. False: no step is open
  // for this yet.
  bool open(c10::ArrayRef<const c10::IValue> inputs);
  void noteUpdate() {  // Optimizer.step
    updated_ = true;
    marks_.endStage();
  }
  bool updated() const noexcept { return updated_; }  // and no op has begun the next step
  void endUpdate() {
    if (run_ != nullptr && run_->options().log != nullptr) run_->options().log->noteUpdated();
  }
  void noteBackwardNode(const char* name);
  // The op that runs was refused its memory, for good: what follows is another step.
  void noteRefused() { refused_ = true; }

  // The step ends here, the next op begins another. `busy`: inside an op or a backward pass; it
  // ends with the next op then.
  void hint(bool busy);
  void endAll();  // nothing of the thread's program is left to come

  // Nothing of the open step is recorded, and no saved tensor is ours, nor need be: its ops need
  // not be seen until it has run backward, or one is.
  bool needsNoOps() const noexcept {
    return run_ != nullptr && !run_->recordsOps() && !run_->options().asksForAll() &&
           !run_->hasUses() && run_->options().log == nullptr && !updated_ && !refused_ &&
           !hint_due_ && waiting_.empty();
  }

  // What the thread sends, receives and says that it does, wherever that is.
  bool mayWantMarks(bool in_backward) const noexcept {  // false: nobody needs to look for them
    return run_ == nullptr || run_->options().log != nullptr || updated_ ||
           (run_->phases().paused() && !in_backward);
  }
  bool wantsMessages() const { return marks_.wanted(place(true)) || marks_.wanted(place(false)); }
  void noteMessage(const GroupMessage& message) {
    marks_.noteMessage(message, place(!message.message.receive));
  }
  StepMarks::Token beginScope(const char* name) { return marks_.beginScope(name, place(false)); }
  void endScope(StepMarks::Token token) { marks_.endScope(token); }
  void beginStage(std::int32_t stage, std::int32_t microbatch) {
    marks_.beginStage(stage, microbatch, place(false));
  }

 private:
  struct Waiting {
    std::shared_ptr<StepRun> run;
    int hints = 0;  // since the one that ended it
  };

  // An op with such inputs begins, which may be the next step's first.
  bool isOver(c10::ArrayRef<const c10::IValue> inputs);
  StepMarks::Place place(bool sends) const;
  void giveMarks() {
    if (marks_.holds()) marks_.joinStep(run_->options().log);
  }
  bool begin(c10::Device device);  // false: not now
  void takeHint();
  void endWaiting(int more_hints);
  static void end(const std::shared_ptr<StepRun>& run, bool by_hint, bool waited);
  void endRun(bool by_hint);
  void noteEnded(const StepRun& run);
  // False: its steps have run nothing backward so far. It serves, say, and forgot no_grad.
  bool trains() const noexcept { return trained_ || !looked_on_; }

  std::shared_ptr<StepRun> run_;
  std::vector<Waiting> waiting_;  // oldest first
  StepMarks marks_;
  bool updated_ = false;
  bool hinted_ = false;  // the program gives hints: nothing else ends a step
  bool hint_due_ = false;
  bool refused_ = false;
  bool trained_ = false, looked_on_ = false;  // a step ended with a backward pass, without one
};

}  // namespace ebbtide::plugin
