#include "hooks/op_calls.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <exception>
#include <memory>

namespace ebbtide::plugin {

namespace autograd = torch::autograd;

namespace {

// The last who has it, a pass that ends or fails, lets go of it on the thread that ran it.
struct TellsAtEnd {
  TellsAtEnd() = default;
  ~TellsAtEnd() { opCalls().tell(); }
  TellsAtEnd(const TellsAtEnd&) = delete;
  TellsAtEnd& operator=(const TellsAtEnd&) = delete;
};

}  // namespace

OpCalls& opCalls() {
  static auto* const calls = new OpCalls();  // threads may end after static destruction
  return *calls;
}

void OpCalls::install(const at::RecordFunctionCallback& ops,
                      const at::RecordFunctionCallback& nodes) {
  const Held lock(mutex_);
  ops_ = at::addGlobalCallback(ops);
  nodes_ = at::addGlobalCallback(nodes);
}

void OpCalls::rest() {
  const Held lock(mutex_);
  if (!ops_told_ || threads_ != 1) return;
  at::disableCallback(ops_);
  ops_told_ = false;
  at_rest_ = true;
}

void OpCalls::restInPass() {
  if (autograd::get_current_graph_task_id() < 0) return tell();  // a node that is called by hand
  const auto told_at_end = std::make_shared<TellsAtEnd>();
  autograd::Engine::get_default_engine().queue_callback([told_at_end] { opCalls().tell(); });
  const Held lock(mutex_);
  if (ops_told_ || !nodes_told_) return;
  at::disableCallback(nodes_);
  nodes_told_ = false;
}

void OpCalls::tell() noexcept {
  if (!atRest()) return;
  const Held lock(mutex_);
  tellAll(lock);
}

void OpCalls::tellAll(const Held&) noexcept {
  if (!ops_told_) at::reenableCallback(ops_);
  if (!nodes_told_) at::reenableCallback(nodes_);
  ops_told_ = nodes_told_ = true;
  at_rest_ = false;
}

void OpCalls::add(int threads) noexcept {
  const Held lock(mutex_);
  threads_ += threads;
  tellAll(lock);
}

OpCalls::Thread::Thread() {
  known() = true;
  opCalls().add(1);
}

OpCalls::Thread::~Thread() {
  opCalls().add(-1);
}

}  // namespace ebbtide::plugin
