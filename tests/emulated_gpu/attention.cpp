// Attention as CUDA has it: efficient, flash and cuDNN's. PyTorch's own code chooses; each is
// softmax(q k^T) v, and leaves unwritten what the real kernel does.
#include <c10/cuda/CUDAGuard.h>

#include <cmath>
#include <limits>

#include "demand.hpp"
#include "device_tensor.hpp"
#include "operators.hpp"
#include "unsteady.hpp"

namespace emulated_gpu {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

struct Attention {
  DeviceTensor q, k, v, bias;
  double dropout = 0, scale = 1;
  bool causal = false;
};

// Of one pass, in float32. Queries' heads in groups share keys and values.
struct Parts {
  Parts(const Attention& attention, const std::optional<at::Generator>& generator);
  Tensor shared(const Tensor& gradient) const;  // summed over the heads of a group

  Tensor q, k, v, weights, kept, logsumexp;
  std::int64_t group = 1;
};

Parts::Parts(const Attention& attention, const std::optional<at::Generator>& generator)
    : q(attention.q.onHost().to(at::kFloat)),
      k(attention.k.onHost().to(at::kFloat)),
      v(attention.v.onHost().to(at::kFloat)),
      group(q.size(1) / k.size(1)) {
  if (group > 1) {
    k = k.repeat_interleave(group, 1);
    v = v.repeat_interleave(group, 1);
  }
  Tensor scores = at::matmul(q, k.transpose(-2, -1)).mul(attention.scale);
  if (attention.bias.defined()) scores = scores.add(attention.bias.onHost().to(at::kFloat));
  if (attention.causal) {
    const Tensor later =
        at::ones({scores.size(-2), scores.size(-1)}, at::kBool).tril().logical_not();
    scores = scores.masked_fill(later, -std::numeric_limits<float>::infinity());
  }
  logsumexp = at::logsumexp(scores, {-1});
  weights = at::softmax(scores, -1);
  if (attention.dropout > 0) {
    const double keep = 1 - attention.dropout;
    kept = at::empty_like(weights).bernoulli_(keep, generator).div(keep);
  }
}

Tensor Parts::shared(const Tensor& gradient) const {
  if (group == 1) return gradient;
  return gradient.unflatten(1, {gradient.size(1) / group, group}).sum(2);
}

Attention attentionOf(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& bias,
                      double dropout, bool causal, std::optional<double> scale) {
  const double by_width = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  return {DeviceTensor(q), DeviceTensor(k),          DeviceTensor(v), DeviceTensor(bias),
          dropout,         scale.value_or(by_width), causal};
}

// As [batch, sequence, heads, width] in memory, as all three kinds write it.
Tensor newOutput(const Tensor& q, const Tensor& v) {
  return at::empty({q.size(0), q.size(2), q.size(1), v.size(3)}, q.options()).transpose(1, 2);
}

std::optional<Draws> drawsFor(const Tensor& q, const Tensor& k, double dropout) {
  if (dropout <= 0) return std::nullopt;
  return Draws::take(std::nullopt, q.size(0) * q.size(1) * q.size(2) * k.size(2));
}

// `seed` and `offset` are written with what was drawn, where they are the device's.
void launchForward(const Attention& attention, const Tensor& output, const Tensor& logsumexp,
                   const std::optional<Draws>& draws, const Tensor& seed, const Tensor& offset) {
  const DeviceTensor out(output), sums(logsumexp);
  const DeviceTensor seed_at(seed.is_cuda() ? seed : Tensor());
  const DeviceTensor offset_at(offset.is_cuda() ? offset : Tensor());
  launch(
      "attention",
      [=] {
        std::optional<at::Generator> generator;
        if (draws) {
          generator = draws->generator();
          if (seed_at.defined()) seed_at.onHost().fill_(draws->seed());
          if (offset_at.defined()) offset_at.onHost().fill_(draws->offset());
        }
        const Parts parts(attention, generator);
        const Tensor weights = parts.kept.defined() ? parts.weights.mul(parts.kept) : parts.weights;
        out.onHost().copy_(at::matmul(weights, parts.v));
        const Tensor target = sums.onHost();
        if (target.numel() == 0) return;
        target.slice(2, 0, parts.logsumexp.size(2))
            .copy_(target.dim() == 4 ? parts.logsumexp.unsqueeze(-1) : parts.logsumexp);
      },
      {attention.q, attention.k, attention.v, attention.bias},
      {out, sums, draws ? seed_at : DeviceTensor(), draws ? offset_at : DeviceTensor()}, {},
      attentionDemand(attention.q, attention.k, attention.v, attention.causal, 2));
}

struct Gradients {
  Tensor q, k, v, bias;
};

void launchBackward(const char* name, const Attention& attention, const Tensor& gradient,
                    const Tensor& seed, const Tensor& offset, const Gradients& wanted) {
  const DeviceTensor of_output(gradient), seed_at(seed), offset_at(offset);
  const DeviceTensor dq(wanted.q), dk(wanted.k), dv(wanted.v), db(wanted.bias);
  const bool no_order = addsInNoOrder(name);
  launch(
      name,
      [=] {
        std::optional<at::Generator> generator;
        if (attention.dropout > 0) {
          const auto number = [](const DeviceTensor& at) {
            return static_cast<const std::int64_t*>(at.onHost().data_ptr())[0];
          };
          generator = Draws::generatorOf(number(seed_at), number(offset_at));
        }
        const Parts parts(attention, generator);
        const Tensor go = of_output.onHost().to(at::kFloat);
        const Tensor weights = parts.kept.defined() ? parts.weights.mul(parts.kept) : parts.weights;
        Tensor dw = at::matmul(go, parts.v.transpose(-2, -1));
        if (parts.kept.defined()) dw = dw.mul(parts.kept);
        const Tensor ds = parts.weights.mul(dw.sub(dw.mul(parts.weights).sum(-1, true)));
        dv.onHost().copy_(parts.shared(at::matmul(weights.transpose(-2, -1), go)));
        dq.onHost().copy_(at::matmul(ds, parts.k).mul(attention.scale));
        dk.onHost().copy_(
            parts.shared(at::matmul(ds.transpose(-2, -1), parts.q).mul(attention.scale)));
        if (db.defined()) db.onHost().copy_(ds.sum_to_size(db.sizes()));
        if (no_order) disturb(dq.onHost(), nextLaunch());
      },
      {attention.q, attention.k, attention.v, attention.bias, of_output, seed_at, offset_at},
      {dq, dk, dv, db}, {},
      attentionDemand(attention.q, attention.k, attention.v, attention.causal, 5));
}

// --- efficient: seed and offset are the host's, but in a capture

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient(const Tensor& q, const Tensor& k,
                                                     const Tensor& v, const MaybeTensor& bias,
                                                     bool keep_sums, double dropout, bool causal,
                                                     std::optional<double> scale) {
  constexpr std::int64_t kRows = 32;  // sums are padded to whole tiles
  const c10::cuda::CUDAGuard guard(q.device());
  const InKernel scope;
  const Tensor output = newOutput(q, v);
  const std::int64_t padded = keep_sums ? (q.size(2) + kRows - 1) / kRows * kRows : 0;
  const Tensor sums = at::empty({q.size(0), q.size(1), padded}, q.options().dtype(at::kFloat));
  const auto numbers = (capturing() ? q.options() : at::TensorOptions()).dtype(at::kLong);
  const Tensor seed = at::empty({}, numbers), offset = at::empty({}, numbers);
  const auto draws = drawsFor(q, k, dropout);
  if (draws && !capturing()) {
    seed.fill_(draws->seed());
    offset.fill_(draws->offset());
  }
  const Attention attention = attentionOf(q, k, v, bias, dropout, causal, scale);
  launchForward(attention, output, sums, draws, seed, offset);
  return {output, sums, seed, offset};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficientBackward(
    const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
    const Tensor&, const Tensor&, const Tensor& seed, const Tensor& offset, double dropout,
    std::array<bool, 4> wanted, bool causal, std::optional<double> scale) {
  const c10::cuda::CUDAGuard guard(q.device());
  const InKernel scope;
  Gradients result{at::empty_like(q), at::empty_like(k), at::empty_like(v), {}};
  if (bias.defined() && wanted[3]) result.bias = at::empty(bias.sizes(), bias.options());
  const Attention attention = attentionOf(q, k, v, bias, dropout, causal, scale);
  launchBackward("aten::_scaled_dot_product_efficient_attention_backward", attention, gradient,
                 seed, offset, result);
  return {result.q, result.k, result.v, result.bias};
}

// --- flash: one tensor has both numbers, and stays unwritten without dropout, as the unused one
// does

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> flash(
    const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool,
    std::optional<double> scale) {
  const c10::cuda::CUDAGuard guard(q.device());
  const InKernel scope;
  const Tensor output = newOutput(q, v);
  const Tensor sums = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  const Tensor state = at::empty({2}, q.options().dtype(at::kUInt64));
  const Tensor unused = at::empty({}, q.options().dtype(at::kUInt64));
  const Tensor numbers = state.view(at::kLong);
  const auto draws = drawsFor(q, k, dropout);
  const Attention attention = attentionOf(q, k, v, std::nullopt, dropout, causal, scale);
  launchForward(attention, output, sums, draws, numbers.slice(0, 0, 1), numbers.slice(0, 1, 2));
  return {output, sums, Tensor(), Tensor(), q.size(2), k.size(2), state, unused, Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> flashBackward(const Tensor& gradient, const Tensor& q,
                                                 const Tensor& k, const Tensor& v, const Tensor&,
                                                 const Tensor&, const Tensor&, const Tensor&,
                                                 c10::SymInt, c10::SymInt, double dropout,
                                                 bool causal, const Tensor& state, const Tensor&,
                                                 std::optional<double> scale) {
  const c10::cuda::CUDAGuard guard(q.device());
  const InKernel scope;
  const Gradients result{at::empty_like(q), at::empty_like(k), at::empty_like(v), {}};
  Tensor seed, offset;
  if (dropout > 0) {
    const Tensor numbers = state.view(at::kLong);
    seed = numbers.slice(0, 0, 1);
    offset = numbers.slice(0, 1, 2);
  }
  const Attention attention = attentionOf(q, k, v, std::nullopt, dropout, causal, scale);
  launchBackward("aten::_scaled_dot_product_flash_attention_backward", attention, gradient, seed,
                 offset, result);
  return {result.q, result.k, result.v};
}

// --- cuDNN's: numbers on the device, unwritten without dropout

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> cudnn(
    const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& bias, bool keep_sums,
    double dropout, bool causal, bool, std::optional<double> scale) {
  const c10::cuda::CUDAGuard guard(q.device());
  const InKernel scope;
  const Tensor output = newOutput(q, v);
  const auto floats = q.options().dtype(at::kFloat);
  const Tensor sums = keep_sums ? at::empty({q.size(0), q.size(1), q.size(2), 1}, floats)
                                : at::empty({0, 0, 0}, floats);
  const Tensor seed = at::empty({}, q.options().dtype(at::kLong));
  const Tensor offset = at::empty({}, q.options().dtype(at::kLong));
  const auto draws = drawsFor(q, k, dropout);
  const Attention attention = attentionOf(q, k, v, bias, dropout, causal, scale);
  launchForward(attention, output, sums, draws, seed, offset);
  return {output, sums, Tensor(), Tensor(), q.size(2), k.size(2), seed, offset, Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnnBackward(const Tensor& gradient, const Tensor& q,
                                                 const Tensor& k, const Tensor& v, const Tensor&,
                                                 const Tensor&, const Tensor& seed,
                                                 const Tensor& offset, const Tensor& bias,
                                                 const Tensor&, const Tensor&, c10::SymInt,
                                                 c10::SymInt, double dropout, bool causal,
                                                 std::optional<double> scale) {
  const c10::cuda::CUDAGuard guard(q.device());
  const InKernel scope;
  const Gradients result{at::empty_like(q), at::empty_like(k), at::empty_like(v), {}};
  const Attention attention = attentionOf(q, k, v, bias, dropout, causal, scale);
  launchBackward("aten::_scaled_dot_product_cudnn_attention_backward", attention, gradient, seed,
                 offset, result);
  return {result.q, result.k, result.v};
}

}  // namespace

void addAttention(Registry& registry) {
  registry.add("aten::_scaled_dot_product_efficient_attention", &efficient);
  registry.add("aten::_scaled_dot_product_efficient_attention_backward", &efficientBackward);
  registry.add("aten::_scaled_dot_product_flash_attention", &flash);
  registry.add("aten::_scaled_dot_product_flash_attention_backward", &flashBackward);
  registry.add("aten::_scaled_dot_product_cudnn_attention", &cudnn);
  registry.add("aten::_scaled_dot_product_cudnn_attention_backward", &cudnnBackward);
}

}  // namespace emulated_gpu
