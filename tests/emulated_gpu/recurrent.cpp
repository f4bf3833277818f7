// cuDNN's LSTM: the stub that torch calls it by, its ops, its flat weights, and the state of its
// dropout, which each training pass moves on, unseen by torch's generators.
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/native/RNN.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/cuda/CUDAGuard.h>

#include <mutex>
#include <optional>
#include <vector>

#include "device_tensor.hpp"
#include "operators.hpp"

namespace emulated_gpu {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Weights = std::vector<DeviceTensor>;

constexpr std::int64_t kLstm = 2;              // cuDNN's modes
constexpr std::int64_t kStateBytes = 2 << 20;  // a seed, passes so far, and nothing
constexpr int kCell = 4, kKept = 5;            // of each step: the gates i, f, g, o, and the cell

struct Net {
  std::int64_t layers = 1, directions = 1, hidden = 0, stride = 4;  // weights of a lane
  double dropout = 0;
  bool batch_first = false;
  std::int64_t steps = 0, batch = 0;

  std::int64_t width() const { return directions * hidden; }  // of a layer's output
  std::int64_t lanes() const { return layers * directions; }
  std::int64_t keptNumbers() const { return lanes() * steps * kKept * batch * hidden; }
  std::int64_t maskNumbers() const { return (layers - 1) * steps * batch * width(); }
  // What lies where in the reserve.
  Tensor kept(const Tensor& reserve) const {
    return reserve.narrow(0, 0, keptNumbers()).view({lanes(), steps, kKept, batch, hidden});
  }
  Tensor masks(const Tensor& reserve) const {
    return reserve.narrow(0, keptNumbers(), maskNumbers())
        .view({layers - 1, steps, batch, width()});
  }
  // A lane's numbers in a layer's output.
  Tensor part(const Tensor& output, std::int64_t lane) const {
    return output.narrow(2, lane % directions * hidden, hidden);
  }
  Tensor byStep(const Tensor& rows) const { return batch_first ? rows.transpose(0, 1) : rows; }
  std::int64_t stepOf(std::int64_t lane, std::int64_t turn) const {
    return lane % directions == 0 ? turn : steps - 1 - turn;
  }
};

Net netOf(const Tensor& input, std::int64_t stride, std::int64_t mode, const c10::SymInt& hidden,
          const c10::SymInt& projected, std::int64_t layers, bool batch_first, double dropout,
          bool bidirectional, c10::SymIntArrayRef batch_sizes) {
  TORCH_CHECK(mode == kLstm && projected == 0 && batch_sizes.empty(),
              "emulated GPU: of cuDNN's recurrent nets only LSTMs, without packed sequences");
  return {.layers = layers,
          .directions = bidirectional ? 2 : 1,
          .hidden = hidden.expect_int(),
          .stride = stride,
          .dropout = dropout,
          .batch_first = batch_first,
          .steps = input.size(batch_first ? 1 : 0),
          .batch = input.size(batch_first ? 0 : 1)};
}

Weights weightsOf(at::TensorList tensors) {
  Weights result;
  for (const Tensor& each : tensors) result.emplace_back(each);
  return result;
}

// --- weights one after the other in one block

Tensor flatOf(at::TensorList weights) {
  std::int64_t at = 0;
  for (const Tensor& each : weights) {
    const bool there = each.is_contiguous() && each.storage_offset() == at &&
                       each.storage().is_alias_of(weights[0].storage());
    if (!there) return {};
    at += each.numel();
  }
  return at::empty({0}, weights[0].options()).set_(weights[0].storage(), 0, {at}, {1});
}

Tensor copiedFlat(at::TensorList weights) {
  std::vector<Tensor> rows;
  for (const Tensor& each : weights) rows.push_back(each.reshape({-1}));
  return at::cat(rows);
}

Tensor flatten(at::TensorList weights, std::int64_t, c10::SymInt, std::int64_t, c10::SymInt,
               c10::SymInt, std::int64_t, bool, bool) {
  const c10::cuda::CUDAGuard guard(weights[0].device());
  const InKernel scope;
  const Tensor flat = copiedFlat(weights);
  std::int64_t at = 0;
  for (const Tensor& each : weights) {
    const std::int64_t numbers = each.numel();
    each.set_(flat.narrow(0, at, numbers).view(each.sizes()));
    at += numbers;
  }
  return flat;
}

// --- dropout's state

Tensor initState(double dropout, bool train, std::int64_t seed, std::optional<at::ScalarType>,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const auto options = at::TensorOptions().dtype(at::kByte).device(device.value_or(at::kCUDA));
  const bool draws = train && dropout > 0;
  const InKernel scope;
  const Tensor state = at::empty({draws ? kStateBytes : 0}, options);
  if (!draws) return state;
  const DeviceTensor at(state);
  launch("cudnn_init_dropout_state",
         [=] {
           const Tensor numbers = at.onHost().view(at::kLong);
           numbers[0].fill_(seed);
           numbers[1].zero_();
         },
         {}, {at});
  return state;
}

// One a device, as torch has it: passes on all streams come one after the other.
struct State {
  std::mutex mutex;
  Tensor tensor;
  at::cuda::CUDAEvent passed;
};

State& stateOf(c10::DeviceIndex device) {
  static auto* const all =
      new std::vector<State>(static_cast<std::size_t>(at::cuda::device_count()));
  return all->at(static_cast<std::size_t>(device));
}

void make(State& state, double dropout, const at::TensorOptions& options) {
  const at::Generator generator =
      at::cuda::detail::getDefaultCUDAGenerator(options.device().index());
  const bool anew = at::check_generator<at::CUDAGeneratorImpl>(generator)->reset_rnn_state();
  if (state.tensor.defined() && !anew) return;
  const auto seed = at::empty({}, options.dtype(at::kLong)).random_(generator).item<std::int64_t>();
  state.tensor = at::_cudnn_init_dropout_state(dropout, true, seed, options.dtype(at::kByte));
}

void lstm(Tensor& output, Tensor& hy, Tensor& cy, const Tensor& input, at::TensorList hidden,
          at::TensorList weights, bool biases, std::int64_t layers, double dropout, bool train,
          bool bidirectional, bool batch_first) {
  const std::int64_t size = hidden[1].size(2), projected = hidden[0].size(2);
  const c10::cuda::CUDAGuard guard(input.device());
  const Tensor flat = flatOf(weights);
  State& state = stateOf(input.device().index());
  const std::lock_guard lock(state.mutex);
  const bool draws = train && dropout > 0;
  if (draws) {
    make(state, dropout, input.options().requires_grad(false));
    if (!capturing()) state.passed.block(c10::cuda::getCurrentCUDAStream());
  }
  auto [y, h, c, reserve, buffer] = at::_cudnn_rnn(
      input, weights, biases ? 4 : 2, flat.defined() ? MaybeTensor(flat) : std::nullopt, hidden[0],
      hidden[1], kLstm, size, projected == size ? 0 : projected, layers, batch_first, dropout,
      train, bidirectional, {}, draws ? MaybeTensor(state.tensor) : std::nullopt);
  if (draws && !capturing()) state.passed.record(c10::cuda::getCurrentCUDAStream());
  output = y;
  hy = h;
  cy = c;
}

// --- forward

// Of one lane, a layer's direction. `output` has the lanes' numbers side by side.
void runLane(const Net& net, std::int64_t lane, const Tensor& x, const Weights& weights, Tensor h,
             Tensor c, const Tensor& kept, const Tensor& output, const DeviceTensor& h_end,
             const DeviceTensor& c_end) {
  const auto first = static_cast<std::size_t>(lane * net.stride);
  const Tensor of_h = weights[first + 1].onHost().t();
  Tensor sums = at::matmul(x, weights[first].onHost().t());
  if (net.stride == 4) sums = sums + weights[first + 2].onHost() + weights[first + 3].onHost();
  for (std::int64_t turn = 0; turn < net.steps; ++turn) {
    const std::int64_t t = net.stepOf(lane, turn);
    const auto parts = at::addmm(sums[t], h, of_h).chunk(4, 1);
    const Tensor i = parts[0].sigmoid(), f = parts[1].sigmoid(), g = parts[2].tanh(),
                 o = parts[3].sigmoid();
    c = f * c + i * g;
    h = o * c.tanh();
    kept[t].copy_(at::stack({i, f, g, o, c}));
    net.part(output, lane)[t].copy_(h);
  }
  h_end.onHost()[lane].copy_(h);
  c_end.onHost()[lane].copy_(c);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> forward(
    const Tensor& input, at::TensorList weight, std::int64_t stride, const MaybeTensor& flat,
    const Tensor& hx, const MaybeTensor& cx, std::int64_t mode, c10::SymInt hidden,
    c10::SymInt projected, std::int64_t layers, bool batch_first, double dropout, bool train,
    bool bidirectional, c10::SymIntArrayRef batch_sizes, const MaybeTensor& state) {
  const c10::cuda::CUDAGuard guard(input.device());
  const InKernel scope;
  const Net net = netOf(input, stride, mode, hidden, projected, layers, batch_first, dropout,
                        bidirectional, batch_sizes);
  const Tensor output = at::empty({net.steps, net.batch, net.width()}, input.options());
  const Tensor hy = at::empty_like(hx), cy = at::empty_like(hx);
  const auto size = static_cast<std::int64_t>(input.element_size());
  const Tensor reserve = at::empty({train ? (net.keptNumbers() + net.maskNumbers()) * size : 0},
                                   input.options().dtype(at::kByte));
  const Tensor buffer = flat && flat->defined() ? *flat : copiedFlat(weight);
  const bool draws = train && dropout > 0;
  const DeviceTensor x(input), h(hx), c(cx), y(output), h_end(hy), c_end(cy), r(reserve),
      drawn(draws ? state : MaybeTensor());
  const Weights by = weightsOf(weight);
  Weights reads = by;
  for (const DeviceTensor& each : {x, h, c}) reads.push_back(each);
  launch("cudnn_rnn",
         [=] {
           Tensor rows = net.byStep(x.onHost());
           const Tensor reserved = train ? r.onHost().view(rows.scalar_type())
                                         : at::empty({net.keptNumbers()}, rows.options());
           std::optional<at::Generator> generator;
           if (draws) {
             auto* const numbers = static_cast<std::int64_t*>(drawn.onHost().data_ptr());
             generator = Draws::generatorOf(numbers[0], numbers[1]++);
           }
           for (std::int64_t layer = 0; layer < net.layers; ++layer) {
             const Tensor out = at::empty(y.sizes(), rows.options());
             for (std::int64_t d = 0; d < net.directions; ++d) {
               const std::int64_t lane = layer * net.directions + d;
               runLane(net, lane, rows, by, h.onHost()[lane], c.onHost()[lane],
                       net.kept(reserved)[lane], out, h_end, c_end);
             }
             rows = out;
             if (layer + 1 == net.layers || !train) continue;
             const Tensor mask = net.masks(reserved)[layer].fill_(1);
             if (generator) mask.bernoulli_(1 - net.dropout, *generator).div_(1 - net.dropout);
             rows = out * mask;
           }
           y.onHost().copy_(rows);
         },
         reads, {y, h_end, c_end, r, drawn});
  return {net.batch_first ? output.transpose(0, 1) : output, hy, cy, reserve, buffer};
}

// --- backward, by what the forward pass reserved

struct Gradients {
  DeviceTensor x, hx, cx;
  Weights weights;
};

// Of one lane: `dh` and `dc` begin as the gradients of its end, and become those of its beginning.
// What it adds to the gradient of its layer's input.
Tensor runLaneBackward(const Net& net, std::int64_t lane, const Tensor& x, const Weights& weights,
                       const Tensor& h0, const Tensor& c0, const Tensor& kept,
                       const Tensor& of_output, Tensor& dh, Tensor& dc, const Weights& wanted) {
  const auto first = static_cast<std::size_t>(lane * net.stride);
  const Tensor by_x = weights[first].onHost(), by_h = weights[first + 1].onHost();
  const Tensor before = at::empty({net.steps, net.batch, net.hidden}, x.options());
  const Tensor sums = at::empty({net.steps, net.batch, 4 * net.hidden}, x.options());
  for (std::int64_t turn = net.steps - 1; turn >= 0; --turn) {
    const std::int64_t t = net.stepOf(lane, turn);
    const auto now = kept[t].unbind();
    const Tensor &i = now[0], &f = now[1], &g = now[2], &o = now[3];
    const Tensor tanh = now[kCell].tanh();
    Tensor c_before = c0, h_before = h0;
    if (turn > 0) {
      const auto then = kept[net.stepOf(lane, turn - 1)].unbind();
      c_before = then[kCell];
      h_before = then[3] * c_before.tanh();
    }
    dh = dh + of_output[t];
    dc = dc + dh * o * (1 - tanh * tanh);
    sums[t].copy_(at::cat({dc * g * i * (1 - i), dc * c_before * f * (1 - f), dc * i * (1 - g * g),
                           dh * tanh * o * (1 - o)},
                          1));
    before[t].copy_(h_before);
    dc = dc * f;
    dh = at::matmul(sums[t], by_h);
  }
  if (!wanted.empty()) {
    const Tensor flat = sums.flatten(0, 1).t();
    wanted[first].onHost().copy_(at::matmul(flat, x.flatten(0, 1)));
    wanted[first + 1].onHost().copy_(at::matmul(flat, before.flatten(0, 1)));
    for (std::size_t i = first + 2; i < first + static_cast<std::size_t>(net.stride); ++i) {
      wanted[i].onHost().copy_(flat.sum(1));
    }
  }
  return at::matmul(sums, by_x);
}

// A layer's output, as the forward pass had it.
Tensor outputOf(const Net& net, std::int64_t layer, const Tensor& kept) {
  std::vector<Tensor> parts;
  for (std::int64_t d = 0; d < net.directions; ++d) {
    const Tensor lane = kept[layer * net.directions + d];
    parts.push_back(lane.select(1, 3) * lane.select(1, kCell).tanh());
  }
  return at::cat(parts, 2);
}

void runBackward(const Net& net, const Tensor& input, const Weights& weights, const Tensor& hx,
                 const Tensor& cx, const Tensor& reserved, Tensor gradient, const Tensor& of_h,
                 const Tensor& of_c, const Gradients& wanted) {
  const Tensor kept = net.kept(reserved), masks = net.masks(reserved);
  for (std::int64_t layer = net.layers - 1; layer >= 0; --layer) {
    const Tensor x =
        layer == 0 ? net.byStep(input) : outputOf(net, layer - 1, kept) * masks[layer - 1];
    Tensor of_x = at::zeros_like(x);
    for (std::int64_t d = 0; d < net.directions; ++d) {
      const std::int64_t lane = layer * net.directions + d;
      Tensor dh = of_h[lane], dc = of_c[lane];
      of_x += runLaneBackward(net, lane, x, weights, hx[lane], cx[lane], kept[lane],
                              net.part(gradient, lane), dh, dc, wanted.weights);
      if (wanted.hx.defined()) wanted.hx.onHost()[lane].copy_(dh);
      if (wanted.cx.defined()) wanted.cx.onHost()[lane].copy_(dc);
    }
    gradient = layer == 0 ? of_x : of_x * masks[layer - 1];
  }
  if (wanted.x.defined()) wanted.x.onHost().copy_(net.byStep(gradient));
}

std::tuple<Tensor, Tensor, Tensor, std::vector<Tensor>> backward(
    const Tensor& input, at::TensorList weight, std::int64_t stride, const Tensor&,
    const Tensor& hx, const MaybeTensor& cx, const Tensor&, const MaybeTensor& of_output,
    const MaybeTensor& of_hy, const MaybeTensor& of_cy, std::int64_t mode, c10::SymInt hidden,
    c10::SymInt projected, std::int64_t layers, bool batch_first, double dropout, bool,
    bool bidirectional, c10::SymIntArrayRef batch_sizes, const MaybeTensor&, const Tensor& reserve,
    std::array<bool, 4> wants) {
  const c10::cuda::CUDAGuard guard(input.device());
  const InKernel scope;
  const Net net = netOf(input, stride, mode, hidden, projected, layers, batch_first, dropout,
                        bidirectional, batch_sizes);
  const Tensor dx = wants[0] ? at::empty_like(input) : Tensor();
  const Tensor dh = wants[1] ? at::empty_like(hx) : Tensor();
  const Tensor dc = wants[2] ? at::empty_like(hx) : Tensor();
  std::vector<Tensor> dw;
  for (const Tensor& each : weight) dw.push_back(wants[3] ? at::empty_like(each) : Tensor());
  const DeviceTensor x(input), h(hx), c(cx), r(reserve), go(of_output), gh(of_hy), gc(of_cy);
  const Gradients wanted{DeviceTensor(dx), DeviceTensor(dh), DeviceTensor(dc),
                         wants[3] ? weightsOf(dw) : Weights()};
  const Weights by = weightsOf(weight);
  Weights reads = by, writes = wanted.weights;
  for (const DeviceTensor& each : {x, h, c, r, go, gh, gc}) reads.push_back(each);
  for (const DeviceTensor& each : {wanted.x, wanted.hx, wanted.cx}) writes.push_back(each);
  launch(
      "cudnn_rnn_backward",
      [=] {
        const Tensor rows = x.onHost(), begin = h.onHost();
        const Tensor gradient =
            go.defined() ? net.byStep(go.onHost())
                         : at::zeros({net.steps, net.batch, net.width()}, rows.options());
        runBackward(net, rows, by, begin, c.onHost(), r.onHost().view(rows.scalar_type()), gradient,
                    gh.defined() ? gh.onHost() : at::zeros_like(begin),
                    gc.defined() ? gc.onHost() : at::zeros_like(begin), wanted);
      },
      reads, writes);
  return {dx, dh, dc, dw};
}

}  // namespace

void addRecurrent(Registry& registry) {
  registry.add("aten::_cudnn_init_dropout_state", &initState);
  registry.add("aten::_cudnn_rnn_flatten_weight", &flatten);
  registry.add("aten::_cudnn_rnn", &forward);
  registry.add("aten::_cudnn_rnn_backward", &backward);
  at::native::lstm_cudnn_stub.set_cuda_dispatch_ptr(&lstm);
}

}  // namespace emulated_gpu
