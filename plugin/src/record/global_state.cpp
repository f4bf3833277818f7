#include "record/global_state.hpp"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>

#include <exception>
#include <vector>

#include "device/torch/training_device.hpp"

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

constexpr std::array<Switch, GlobalState::Gpu::kSwitches> kGpuTable{{
    {[](const at::Context& c) { return c.userEnabledCuDNN(); },
     [](at::Context& c, bool on) { c.setUserEnabledCuDNN(on); }},
    {[](const at::Context& c) { return c.benchmarkCuDNN(); },
     [](at::Context& c, bool on) { c.setBenchmarkCuDNN(on); }},
    {[](const at::Context& c) { return c.deterministicCuDNN(); },
     [](at::Context& c, bool on) { c.setDeterministicCuDNN(on); }},
    {[](const at::Context& c) { return c.allowFP16AccumulationCuBLAS(); },
     [](at::Context& c, bool on) { c.setAllowFP16AccumulationCuBLAS(on); }},
    {[](const at::Context& c) { return c.userEnabledCuDNNSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseCuDNN(on); }},
    {[](const at::Context& c) { return c.userEnabledFA3SDP(); },
     [](at::Context& c, bool on) { c.setSDPUseFA3(on); }},
    {[](const at::Context& c) { return c.allowFP16BF16ReductionMathSDP(); },
     [](at::Context& c, bool on) { c.setAllowFP16BF16ReductionMathSDP(on); }},
    {[](const at::Context& c) { return c.userEnabledOverrideableSDP(); },
     [](at::Context& c, bool on) { c.setSDPUseOverrideable(on); }},
    {[](const at::Context& c) { return c.deterministicFillUninitializedMemory(); },
     [](at::Context& c, bool on) { c.setDeterministicFillUninitializedMemory(on); }},
}};

using at::Float32Backend;
using at::Float32Precision;

constexpr std::array kPrecisionOps{at::Float32Op::CONV, at::Float32Op::RNN, at::Float32Op::MATMUL};
constexpr std::size_t kOps = kPrecisionOps.size();
constexpr std::size_t kMatmul = 2;

Float32Precision precisionOf(Float32Backend backend, std::size_t op) {
  return at::globalContext().float32Precision(backend, kPrecisionOps[op]);
}

void setPrecision(Float32Backend backend, std::size_t op, Float32Precision precision) {
  at::globalContext().setFloat32Precision(backend, kPrecisionOps[op], precision);
}

// PyTorch refuses to tell it where the newer settings say otherwise.
int matmulPrecision() {
  try {
    return static_cast<int>(at::globalContext().float32MatmulPrecision());
  } catch (const std::exception&) {
    return -1;
  }
}

// That of all backends, and with it theirs.
void setMatmulPrecision(int precision) {
  const auto wanted = static_cast<at::Float32MatmulPrecision>(precision);
  at::globalContext().setFloat32MatmulPrecision(
      wanted == at::Float32MatmulPrecision::HIGHEST ? "highest"
      : wanted == at::Float32MatmulPrecision::HIGH  ? "high"
                                                    : "medium");
}

template <typename Set>
void setReduction(at::CuBLASReductionOption option, const Set& set) {
  using Option = at::CuBLASReductionOption;
  set(option == Option::AllowReducedPrecisionWithSplitK,
      option != Option::DisallowReducedPrecisionDisallowSplitK);
}

GlobalState::Gpu gpuNow() {
  GlobalState::Gpu state;
  at::Context& context = at::globalContext();
  for (std::size_t i = 0; i < kGpuTable.size(); ++i) state.switches[i] = kGpuTable[i].get(context);
  for (std::size_t i = 0; i < kOps; ++i) state.precision[i] = precisionOf(Float32Backend::CUDA, i);
  state.matmul_precision = matmulPrecision();
  state.fp16_reduction = context.allowFP16ReductionCuBLAS();
  state.bf16_reduction = context.allowBF16ReductionCuBLAS();
  state.benchmark_limit = context.benchmarkLimitCuDNN();
  state.linalg = context.linalgPreferredBackend();
  state.blas = context.blasPreferredBackend();
  state.sdp_order = context.sDPPriorityOrder();
  state.sm_carveout = context._SMCarveout_EXPERIMENTAL();
  return state;
}

void changeGpu(const GlobalState::Gpu& from, const GlobalState::Gpu& to) {
  if (from == to) return;
  at::Context& context = at::globalContext();
  for (std::size_t i = 0; i < kGpuTable.size(); ++i) {
    if (from.switches[i] != to.switches[i]) kGpuTable[i].set(context, to.switches[i]);
  }
  if (from.fp16_reduction != to.fp16_reduction) {
    setReduction(to.fp16_reduction, [&](bool reduced, bool split) {
      context.setAllowFP16ReductionCuBLAS(reduced, split);
    });
  }
  if (from.bf16_reduction != to.bf16_reduction) {
    setReduction(to.bf16_reduction, [&](bool reduced, bool split) {
      context.setAllowBF16ReductionCuBLAS(reduced, split);
    });
  }
  if (from.benchmark_limit != to.benchmark_limit)
    context.setBenchmarkLimitCuDNN(to.benchmark_limit);
  if (from.linalg != to.linalg) context.setLinalgPreferredBackend(to.linalg);
  if (from.blas != to.blas) context.setBlasPreferredBackend(to.blas);
  if (from.sdp_order != to.sdp_order) {
    std::vector<std::int64_t> order;
    for (const at::SDPBackend one : to.sdp_order) order.push_back(static_cast<std::int64_t>(one));
    context.setSDPPriorityOrder(order);
  }
  if (from.sm_carveout != to.sm_carveout) context._setSMCarveout_EXPERIMENTAL(to.sm_carveout);
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
  changeGpu(from.gpu, to.gpu);
}

}  // namespace

GlobalState GlobalState::now() {
  GlobalState state;
  const at::Context& context = at::globalContext();
  for (std::size_t i = 0; i < kTable.size(); ++i) state.switches[i] = kTable[i].get(context);
  for (std::size_t i = 0; i < kOps; ++i)
    state.precision[i] = precisionOf(Float32Backend::MKLDNN, i);
  state.default_dtype = c10::get_default_dtype();
  state.threads = at::get_num_threads();
  if (!trainingDevice().contents.onHost()) state.gpu = gpuNow();
  return state;
}

GlobalStateScope::GlobalStateScope(const GlobalState& wanted)
    : wanted_(wanted), before_(GlobalState::now()) {
  change(before_, wanted_);
  changePrecisions();
}

void GlobalStateScope::changePrecisions() {
  const bool matmul = wanted_.gpu.matmul_precision != before_.gpu.matmul_precision &&
                      wanted_.gpu.matmul_precision >= 0 && before_.gpu.matmul_precision >= 0;
  sets_matmul_precision_ = matmul;
  const auto forEach = [this](const auto& visit) {
    for (std::size_t i = 0; i < kOps; ++i) {
      visit(i, Float32Backend::MKLDNN, i, before_.precision[i], wanted_.precision[i]);
      visit(kOps + i, Float32Backend::CUDA, i, before_.gpu.precision[i], wanted_.gpu.precision[i]);
    }
  };
  forEach([&](std::size_t place, Float32Backend backend, std::size_t op, Float32Precision before,
              Float32Precision wanted) {
    if (wanted == before && !(matmul && op == kMatmul)) return;
    // An op without one of its own follows the general switch, and is to do so again at the end.
    // PyTorch tells only which one applies: without its own, would it be the same?
    setPrecision(backend, op, Float32Precision::NONE);
    const bool follows = precisionOf(backend, op) == before;
    own_precision_[place] = follows ? Float32Precision::NONE : before;
  });
  if (matmul) setMatmulPrecision(wanted_.gpu.matmul_precision);
  forEach([&](std::size_t place, Float32Backend backend, std::size_t op, Float32Precision,
              Float32Precision wanted) {
    if (own_precision_[place]) setPrecision(backend, op, wanted);
  });
}

GlobalStateScope::~GlobalStateScope() {
  change(wanted_, before_);
  if (sets_matmul_precision_) setMatmulPrecision(before_.gpu.matmul_precision);
  for (std::size_t place = 0; place < own_precision_.size(); ++place) {
    if (!own_precision_[place]) continue;
    setPrecision(place < kOps ? Float32Backend::MKLDNN : Float32Backend::CUDA, place % kOps,
                 *own_precision_[place]);
  }
}

}  // namespace ebbtide::plugin
