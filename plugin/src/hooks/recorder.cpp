#include "hooks/recorder.hpp"

#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pthread.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "base/thread_scopes.hpp"
#include "device/torch/training_device.hpp"
#include "execute/live_runs.hpp"
#include "execute/poison_scope.hpp"
#include "execute/step_run.hpp"
#include "execute/traced_scope.hpp"
#include "hooks/hooked_tensor.hpp"
#include "hooks/known_gradients.hpp"
#include "hooks/op_calls.hpp"
#include "hooks/saved_tensor.hpp"
#include "hooks/thread_state.hpp"
#include "hooks/variable_hooks.hpp"
#include "record/default_group.hpp"
#include "record/message_batch.hpp"
#include "record/messages.hpp"
#include "record/replay_errors.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

namespace autograd = torch::autograd;
// shared_ptr up to torch 2.14, intrusive_ptr from then on.
using NodePointer = decltype(autograd::Edge::function);

class DelegatingEngine final : public autograd::Engine {
 public:
  explicit DelegatingEngine(autograd::Engine& inner) : inner_(inner) {}

  autograd::variable_list execute(const autograd::edge_list& roots,
                                  const autograd::variable_list& inputs, bool keep_graph,
                                  bool create_graph, bool accumulate_grad,
                                  const autograd::edge_list& outputs) override {
    return inner_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<autograd::GraphTask>& task, NodePointer root,
      autograd::InputBuffer&& buffer) override {
    return inner_.execute_with_graph_task(task, std::move(root), std::move(buffer));
  }
  std::unique_ptr<autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return inner_.make_anomaly_metadata();
  }
  void thread_on_exception(const std::shared_ptr<autograd::GraphTask>& task,
                           const NodePointer& node, std::exception& error) override {
    inner_.thread_on_exception(task, node, error);
  }
  void thread_init(int device, const std::shared_ptr<autograd::ReadyQueue>& queue,
                   bool should_increment) override {
    inner_.thread_init(device, queue, should_increment);
  }
  std::unique_ptr<autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    const at::Tensor* const tensor = takeTensorToSave();
    if (auto users = inner_.get_default_saved_variable_hooks())
      return std::make_unique<HookedTensor>(std::move(users));  // the user's choice wins
    if (passThrough() || at::SavedTensorDefaultHooks::get_tls_state().is_tracing) return nullptr;
    const auto& run = threadState().steps.run();
    if (run == nullptr || !run->options().hooks || captures()) return nullptr;
    if (tensor != nullptr && !SavedTensor::isToManage(*tensor)) return nullptr;
    return std::make_unique<SavedTensor>(tensor);
  }

 private:
  autograd::Engine& inner_;
};

DelegatingEngine* engine = nullptr;

struct OpScope : at::ObserverContext {
  const OpInfo* info = nullptr;
  OpId op = scheduler::kNone;  // kNone: it is only a message
  bool message = false;
  TimeSpan time;
  std::optional<PoisonScope> fill;  // of what it allocates
};

bool looksInside(const OpInfo& info) {
  if (info.transparent || !info.makes_values) return true;
  const c10::DeviceType type = trainedType();
  const auto autocast = at::autocast::get_autocast_dispatch_key_from_device_type(type);
  return info.autocast_kernels.has(autocast) && at::autocast::is_autocast_enabled(type) &&
         !c10::impl::tls_is_dispatch_key_excluded(autocast);
}

// To every step that may know the tensor, another thread's too, but the one that records the op:
// that knows which arguments it says it writes.
void noteWrites(const OpInfo& info, c10::ArrayRef<const c10::IValue> inputs,
                const StepRun* recording = nullptr) {
  const bool statistics = info.updatesStatistics(inputs);
  if (!info.mutates && !statistics) return;
  forEachTensor(inputs, [&](int argument, int, const at::Tensor& tensor) {
    if (info.writes[argument]) liveRuns().noteWrite(tensor, recording);
    if (statistics && info.isStatistic(argument)) liveRuns().noteWrite(tensor, nullptr);
  });
}

// Asked of every op: most names differ within a few letters.
template <std::size_t kBytes>
bool isNamed(const at::RecordFunction& call, const char (&wanted)[kBytes]) {
  const char* const name = call.name();
  for (std::size_t i = 0; i < kBytes; ++i) {  // up to the end's zero
    if (name[i] != wanted[i]) return false;
  }
  return true;
}

// With the tensor that aten::detach_ is given, before it runs.
void noteDetached(const at::RecordFunction& call) {
  if (!isNamed(call, "aten::detach_") || call.inputs().empty()) return;
  const c10::IValue& tensor = call.inputs().back();
  if (tensor.isTensor() && tensor.toTensor().defined() && !tensor.toTensor().is_view())
    liveRuns().noteDetached(tensor.toTensor());
}

// The thread's own step mostly answers, so that the list of steps is not read.
bool replaysToCome(const StepRun* run) {
  return (run != nullptr && run->mayReplay()) || liveRuns().replaysToCome();
}

// An op on another lane than the step's is none of the step's.
bool onOtherLane(const StepRun* run) {
  return run != nullptr && !run->phases().paused() && !run->onItsLane();
}

void noteMessage(const at::RecordFunction& call, ThreadState& state) {
  if (!state.steps.wantsMessages() || captures()) return;
  if (const auto message = groupMessageOf(call)) state.steps.noteMessage(*message);
}

// Its results are no step's. Where they stay, who made them is told (later_blocks.hpp); what the
// optimizer keeps, recorded steps tell.
std::unique_ptr<OpScope> beginUnrecorded(const at::RecordFunction& call,
                                         const ThreadState& state) noexcept {
  UnrecordedOp& op = unrecordedOp();
  if (op.call == nullptr && !state.updates) op = {&call, call.name()};
  return nullptr;
}

// May ops go unreported until the thread's step has run backward, or has saved a tensor for us? No
// other step is open then, and an op can write or detach nothing of ours. Under a budget, ops and
// nodes name live blocks, for an error and for a base that grows. Neither is near while the budget
// is ample.
bool mayRest(const ThreadState& state) {
  Session& session = *Session::current();
  return opCalls().mayRest() && state.steps.needsNoOps() && trainingDevice().contents.onHost() &&
         !session.outputs().trace.on() && hasAmpleBudget(session.trained()) &&
         !liveRuns().others(state.steps.run().get());
}

// Of a step that records none.
std::unique_ptr<OpScope> beginWatched(const ThreadState& state) {
  if (mayRest(state)) opCalls().rest();
  return nullptr;
}

// The engine tells a node before it calls hooks, which may leave another grad mode behind them.
void noteGraphCreator(const at::RecordFunction& call, ThreadState& state) {
  constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
  if (!at::GradMode::is_enabled() || call.operator_schema() ||
      !std::string_view(call.name()).starts_with(kNode))
    return;
  state.graph_creator = autograd::get_current_graph_task_id();
}

std::unique_ptr<OpScope> startFunction(const at::RecordFunction& call, ThreadState& state) {
  const bool in_backward = inBackward();
  if (in_backward) noteGraphCreator(call, state);
  if (state.steps.mayWantMarks(in_backward) && isMessage(call)) noteMessage(call, state);
  const std::shared_ptr<StepRun>& run = state.steps.run();
  // What needs nothing of the device comes first: all other ops ask it whether it is captured.
  if (in_backward) {
    const bool begins = run != nullptr && !run->phases().paused();
    const bool replays = replaysToCome(run.get());
    if ((!begins && !replays) || captures()) return nullptr;
    if (begins) run->backward().noteBackward();
    if (replays) {
      if (const OpInfo* info = opInfo(call); info != nullptr)
        noteWrites(*info, argumentsOf(*info, call));
    }
    return nullptr;
  }
  const bool recording = at::GradMode::is_enabled();
  const bool elsewhere = onOtherLane(run.get());
  if (!recording && !elsewhere && (run == nullptr || !run->recordsOps()) &&
      !replaysToCome(run.get())) {
    return beginUnrecorded(call, state);
  }
  if (captures()) return nullptr;
  const OpInfo* info = opInfo(call);
  if (info ==
      nullptr) {  // a custom Function, whose forward runs without gradients: a compiled graph
    if (elsewhere) run->noteOtherLane(call.inputs());
    // torch tells detach() a second time, without its schema: that begins nothing. A custom
    // Function of that name has a number in the graph. TorchScript detaches what a graph of its own
    // reads, and nothing else tells that this begins (graph_executor.cpp).
    const bool detaches =
        call.seqNr() < 0 && isNamed(call, "detach") && torch::jit::currentCallstack().empty();
    if (recording && !elsewhere && !underTransform() && !detaches) state.steps.open(call.inputs());
    return nullptr;
  }
  if (looksInside(*info)) return nullptr;
  const auto arguments = argumentsOf(*info, call);
  if (arguments.size() != info->handle.schema().arguments().size()) return nullptr;
  if (elsewhere) run->noteOtherLane(arguments);
  if (!recording || elsewhere || underTransform()) {
    noteWrites(*info, arguments);
    return beginUnrecorded(call, state);
  }
  if (!state.steps.open(arguments)) {  // its results are graph inputs
    noteWrites(*info, arguments);
    return beginUnrecorded(call, state);
  }
  if (onOtherLane(run.get())) {  // which the step was left on before its backward pass
    run->noteOtherLane(arguments);
    noteWrites(*info, arguments);
    return nullptr;
  }
  if (info->updatesStatistics(arguments) || (info->mutates && liveRuns().replaysToCome(run.get())))
    noteWrites(*info, arguments, run.get());
  if (!run->recordsOps()) return beginWatched(state);
  auto scope = std::make_unique<OpScope>();
  scope->info = info;
  scope->op = run->beginOp(*info, arguments);
  state.active = scope->op;
  inTrainingOp() = run->options().trains;  // who only looks on meets no refusal
  if (run->fillsMemory(scope->op)) scope->fill.emplace(trainingDevice().blocks, kZeros);
  scope->time = run->startTime();
  return scope;
}

std::unique_ptr<at::ObserverContext> startCall(const at::RecordFunction& call, ThreadState& state) {
  if (state.active != scheduler::kNone) return nullptr;  // inside an op that is one to us
  noteDetached(call);
  const auto& run = state.steps.run();
  const bool message =
      run != nullptr && run->backward().notesReceives() && groupMessageOf(call).has_value();
  if (message) run->backward().noteMessage(isReceive(call));
  if (Session::current()->outputs().trace.on() && isReceive(call)) state.wait.ask();
  std::unique_ptr<OpScope> scope = startFunction(call, state);
  if (!message) return scope;
  if (scope == nullptr) scope = std::make_unique<OpScope>();
  scope->message = true;
  return scope;
}

void noteBackwardNode(ThreadState& state, const char* name) {
  if (!state.read_stand_ins.empty()) letGoOfReadStandIns();
  if (captures()) return;
  const bool stranger = state.steps.run() == nullptr && trainingDevice().lanes.backwardElsewhere();
  if (stranger) {
    liveRuns().noteBackwardNode(name);
  } else {
    state.steps.noteBackwardNode(name);
  }
  if (opCalls().atRest()) opCalls().restInPass();
}

// A leaf's gradient is being accumulated.
struct GradientScope : at::ObserverContext {};

// Only an error of ours asks for it.
std::unique_ptr<at::ObserverContext> startGradient(const at::RecordFunction& call) {
  if (!Session::current()->trained().budgetBytes() ||
      !isNamed(call, "torch::autograd::AccumulateGrad"))
    return nullptr;
  return std::make_unique<GradientScope>();
}

void endGradient() {
  const auto node = autograd::get_current_node();
  const auto* const accumulates = dynamic_cast<const autograd::AccumulateGrad*>(node.get());
  if (accumulates == nullptr) return;
  const at::Tensor& gradient = accumulates->variable.grad();
  if (gradient.defined() && isPlain(gradient)) knownGradients().note(gradient.storage());
}

struct ActionScope : at::ObserverContext {
  ThreadState* of = nullptr;  // of the thread that began it
  bool updates = false;       // Optimizer.step
  StepMarks::Token token = 0;
};

std::unique_ptr<at::ObserverContext> startUserScope(const at::RecordFunction& call,
                                                    ThreadState& state) {
  // torch.optim.Optimizer.profile_hook_step names its scope so: a step even if it writes through
  // .data.
  if (std::strncmp(call.name(), "Optimizer.step", 14) == 0) {
    opCalls().tell();
    state.steps.noteUpdate();
    state.updates = true;
    auto update = std::make_unique<ActionScope>();
    update->of = &state;
    update->updates = true;
    return update;
  }
  if (!state.steps.mayWantMarks(inBackward()) || !namesPipelineAction(call.name())) return nullptr;
  auto scope = std::make_unique<ActionScope>();
  scope->of = &state;
  scope->token = state.steps.beginScope(call.name());
  return scope;
}

// Another thread may end it: the step does, then.
void endUserScope(const ActionScope& scope) {
  ThreadState& state = threadState();
  if (scope.of != &state) return;
  if (!scope.updates) return state.steps.endScope(scope.token);
  state.updates = false;
  state.steps.endUpdate();
}

std::unique_ptr<at::ObserverContext> onStart(const at::RecordFunction& call) {
  if (passThrough()) {
    if (call.scope() == at::RecordScope::BACKWARD_FUNCTION) Session::noteBackwardInChild();
    return nullptr;
  }
  const QuietScope quiet;
  try {
    ThreadState& state = threadState();
    if (RunTrace& trace = Session::current()->outputs().trace; trace.on()) {
      trace.sampleMemory(false);
      state.wait.look(trace);
    }
    switch (call.scope()) {
      case at::RecordScope::FUNCTION:
        return startCall(call, state);
      case at::RecordScope::BACKWARD_FUNCTION:
        noteBackwardNode(state, call.name());
        return startGradient(call);
      case at::RecordScope::USER_SCOPE:
        return startUserScope(call, state);
      default:
        return nullptr;
    }
  } catch (const std::exception& error) {
    Session::current()->drops().disable(messageOf(error));
    return nullptr;
  }
}

void endOp(const at::RecordFunction& call, OpScope& scope, ThreadState& state) {
  state.active = scheduler::kNone;
  inTrainingOp() = false;
  scope.time.end();
  scope.fill.reset();
  const auto unbound = std::move(state.unbound);
  state.unbound.clear();
  std::vector<at::Tensor> saved;
  for (const SavedTensor* use : unbound) saved.push_back(use->unbound());
  state.steps.run()->endOp(scope.op, resultsOf(*scope.info, call), saved, std::move(scope.time));
  saved.clear();
  for (SavedTensor* use : unbound) use->bind(scope.op);
}

void endFunction(const at::RecordFunction& call, OpScope& scope) {
  ThreadState& state = threadState();
  if (scope.op != scheduler::kNone) endOp(call, scope, state);
  if (scope.message && state.steps.run() != nullptr && isUnderWay(call))
    state.steps.run()->backward().runAhead();
}

void onEnd(const at::RecordFunction& call, at::ObserverContext* context) {
  if (unrecordedOp().call == &call) unrecordedOp() = {};
  if (context == nullptr) return;
  const QuietScope quiet;
  try {
    if (call.scope() == at::RecordScope::USER_SCOPE) {
      endUserScope(*static_cast<ActionScope*>(context));
    } else if (call.scope() == at::RecordScope::BACKWARD_FUNCTION) {
      endGradient();
    } else {
      endFunction(call, *static_cast<OpScope*>(context));
    }
  } catch (const std::exception& error) {
    Session::current()->drops().disable(messageOf(error));
  }
}

autograd::Engine& engineStub() {
  return *engine;
}

}  // namespace

void endThreadStep() {
  opCalls().tell();
  threadState().steps.endAll();
}

void refuseThreadStep() noexcept {
  opCalls().tell();
  threadState().steps.noteRefused();
}

void hintThreadStep() {
  if (Session::current() == nullptr || passThrough()) return;
  const QuietScope quiet;
  try {
    opCalls().tell();
    ThreadState& state = threadState();
    state.steps.hint(state.active != scheduler::kNone || inBackward() || captures());
  } catch (const std::exception& error) {
    Session::current()->drops().disable(messageOf(error));
  }
}

void hintThreadStage(int stage, int microbatch) {
  if (Session::current() == nullptr || passThrough() || stage < 0 || microbatch < 0) return;
  const QuietScope quiet;
  try {
    ThreadState& state = threadState();
    if (state.steps.mayWantMarks(inBackward())) state.steps.beginStage(stage, microbatch);
  } catch (const std::exception& error) {
    Session::current()->drops().disable(messageOf(error));
  }
}

std::string runningOp() {
  const ThreadState& state = threadState();
  if (state.active != scheduler::kNone) return state.steps.run()->nameOf(state.active);
  const auto node = autograd::get_current_node();
  return node != nullptr ? node->name() : "";
}

WorkInHand workInHand() {
  if (const WorkInHand ours = TracedScope::current(); *ours.what != '\0') return ours;
  return {.what = keptName(runningOp()), .kind = inBackward() ? "backward" : "forward"};
}

void nameLiveBlocks(LiveShares& live) {
  knownGradients().name(live);
  StepRun::Failing by{.in_backward = inBackward()};
  by.evaluates = !at::GradMode::is_enabled() && !by.in_backward && !threadState().updates;
  if (liveRuns().nameBlocks(live, by)) return;
  for (const auto& [block, op] : Session::current()->trained().later().sinceStep())
    live.add(block, op + " in no training step (evaluation, data)");
}

void installRecorder() {
  rememberCleanThreadState();
  engine = new DelegatingEngine(
      autograd::Engine::get_default_engine());  // leaked: autograd threads outlive exit
  autograd::set_default_engine_stub(&engineStub);
  installVariableHooks();
  Session::current()->trained().memory().setReclaimer(&liveRuns());
  Session::current()->outputs().snapshots.setAsk(&workInHand);
  Session::current()->rank().client().offerStore(&storeOfMessages);
  Session::current()->rank().discovery().offerGroup(
      {.find = &defaultGroup, .open = &storeOfDefaultGroup});
  // After the session's, so before them when a process forks: its locks come after these.
  pthread_atfork([] { opCalls().lockForFork(); }, [] { opCalls().unlockAfterFork(); },
                 [] { opCalls().unlockAfterFork(); });
  pthread_atfork([] { liveRuns().lockForFork(); }, [] { liveRuns().unlockAfterFork(); },
                 [] { liveRuns().unlockAfterFork(); });
  using at::RecordScope;
  const auto callback = [](RecordScope scope) {
    return at::RecordFunctionCallback(&onStart, &onEnd).scopes({scope});
  };
  at::addGlobalCallback(callback(RecordScope::USER_SCOPE));
  opCalls().install(callback(RecordScope::FUNCTION).needsInputs(true).needsOutputs(true),
                    callback(RecordScope::BACKWARD_FUNCTION));
}

}  // namespace ebbtide::plugin
