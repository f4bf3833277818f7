#include "global_state.hpp"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>

namespace ebbtide::plugin {
namespace {

struct Switch {
  bool (*get)(const at::Context&);
  void (*set)(at::Context&, bool);
};

constexpr std::array<Switch, GlobalState::kSwitches> kTable{{
    {[](const at::Context& c) { return c.userEnabledMkldnn(); },
     [](at::Context& c, bool on) { c.setUserEnabledMkldnn(on); }},
    {[](const at::Context& c) { return c.deterministicMkldnn(); },
     [](at::Context& c, bool on) { c.setDeterministicMkldnn(on); }},
    {[](const at::Context& c) { return c.deterministicAlgorithms(); },
     [](at::Context& c, bool on) {
       c.setDeterministicAlgorithms(on, c.deterministicAlgorithmsWarnOnly());
     }},
    {[](const at::Context& c) { return c.deterministicAlgorithmsWarnOnly(); },
     [](at::Context& c, bool on) {
       c.setDeterministicAlgorithms(c.deterministicAlgorithms(), on);
     }},
    {[](const at::Context& c) { return c.userEnabledFlashSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseFlash(on); }},
    {[](const at::Context& c) { return c.userEnabledMemEfficientSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseMemEfficient(on); }},
    {[](const at::Context& c) { return c.userEnabledMathSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseMath(on); }},
}};

constexpr std::array kPrecisionOps{at::Float32Op::CONV, at::Float32Op::RNN, at::Float32Op::MATMUL};

at::Float32Precision precisionOf(std::size_t op) {
  return at::globalContext().float32Precision(at::Float32Backend::MKLDNN, kPrecisionOps[op]);
}

void setPrecision(std::size_t op, at::Float32Precision precision) {
  at::globalContext().setFloat32Precision(at::Float32Backend::MKLDNN, kPrecisionOps[op], precision);
}

// All but the precisions.
void change(const GlobalState& from, const GlobalState& to) {
  if (from == to) return;
  at::Context& context = at::globalContext();
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (from.switches[i] != to.switches[i]) kTable[i].set(context, to.switches[i]);
  }
  if (from.default_dtype != to.default_dtype) c10::set_default_dtype(to.default_dtype);
  if (from.threads != to.threads) at::set_num_threads(to.threads);
}

}  // namespace

GlobalState GlobalState::now() {
  GlobalState state;
  const at::Context& context = at::globalContext();
  for (std::size_t i = 0; i < kTable.size(); ++i) state.switches[i] = kTable[i].get(context);
  for (std::size_t i = 0; i < kPrecisionOps.size(); ++i) state.precision[i] = precisionOf(i);
  state.default_dtype = c10::get_default_dtype();
  state.threads = at::get_num_threads();
  return state;
}

GlobalStateScope::GlobalStateScope(const GlobalState& wanted)
    : wanted_(wanted), before_(GlobalState::now()) {
  change(before_, wanted_);
  for (std::size_t i = 0; i < kPrecisionOps.size(); ++i) {
    if (wanted_.precision[i] == before_.precision[i]) continue;
    // An op without one of its own follows the general switch, and is to do so again at the end.
    // PyTorch tells only which one applies: without its own, would it be the same?
    setPrecision(i, at::Float32Precision::NONE);
    const bool follows = precisionOf(i) == before_.precision[i];
    own_precision_[i] = follows ? at::Float32Precision::NONE : before_.precision[i];
    setPrecision(i, wanted_.precision[i]);
  }
}

GlobalStateScope::~GlobalStateScope() {
  change(wanted_, before_);
  for (std::size_t i = 0; i < kPrecisionOps.size(); ++i) {
    if (wanted_.precision[i] != before_.precision[i]) setPrecision(i, own_precision_[i]);
  }
}

}  // namespace ebbtide::plugin
