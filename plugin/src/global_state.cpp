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

void change(const GlobalState& from, const GlobalState& to) {
  if (from == to) return;
  at::Context& context = at::globalContext();
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (from.switches[i] != to.switches[i]) kTable[i].set(context, to.switches[i]);
  }
  for (std::size_t i = 0; i < kPrecisionOps.size(); ++i) {
    if (from.precision[i] != to.precision[i])
      context.setFloat32Precision(at::Float32Backend::MKLDNN, kPrecisionOps[i], to.precision[i]);
  }
  if (from.default_dtype != to.default_dtype) c10::set_default_dtype(to.default_dtype);
  if (from.threads != to.threads) at::set_num_threads(to.threads);
}

}  // namespace

GlobalState GlobalState::now() {
  GlobalState state;
  const at::Context& context = at::globalContext();
  for (std::size_t i = 0; i < kTable.size(); ++i) state.switches[i] = kTable[i].get(context);
  for (std::size_t i = 0; i < kPrecisionOps.size(); ++i) {
    state.precision[i] = context.float32Precision(at::Float32Backend::MKLDNN, kPrecisionOps[i]);
  }
  state.default_dtype = c10::get_default_dtype();
  state.threads = at::get_num_threads();
  return state;
}

GlobalStateScope::GlobalStateScope(const GlobalState& wanted)
    : wanted_(wanted), before_(GlobalState::now()) {
  change(before_, wanted_);
}

GlobalStateScope::~GlobalStateScope() {
  change(wanted_, before_);
}

}  // namespace ebbtide::plugin
