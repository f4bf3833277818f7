// cuDNN's convolutions and batch normalization: their kernels are reached past the dispatcher, so
// the ops are replaced whole. Convolutions take a workspace of torch's allocator, batch
// normalization keeps a reserve.
#include <ATen/NativeFunctions.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdio>
#include <cstdlib>

#include "demand.hpp"
#include "device_tensor.hpp"
#include "operators.hpp"
#include "unsteady.hpp"

namespace emulated_gpu {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Ints = std::vector<std::int64_t>;

struct Shape {
  Ints stride, padding, dilation, output_padding;
  bool transposed = false;
  std::int64_t groups = 1;
};

Ints ints(c10::SymIntArrayRef sizes) {
  return C10_AS_INTARRAYREF_SLOW(sizes).vec();
}

Tensor newOutput(const Tensor& input, const Tensor& weight, const Shape& shape) {
  const auto inner = static_cast<std::size_t>(input.dim() - 2);
  Ints sizes{input.size(0), shape.transposed ? weight.size(1) * shape.groups : weight.size(0)};
  for (std::size_t i = 0; i < inner; ++i) {
    const auto dim = static_cast<std::int64_t>(i) + 2;
    const std::int64_t kernel = shape.dilation[i] * (weight.size(dim) - 1) + 1;
    const std::int64_t in = input.size(dim);
    sizes.push_back(shape.transposed ? (in - 1) * shape.stride[i] - 2 * shape.padding[i] + kernel +
                                           shape.output_padding[i]
                                     : (in + 2 * shape.padding[i] - kernel) / shape.stride[i] + 1);
  }
  const bool last = input.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                    weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  const auto format =
      last && inner == 2 ? at::MemoryFormat::ChannelsLast : input.suggest_memory_format();
  return at::empty(sizes, input.options(), format);
}

// What its bits depend on, beside its values.
std::uint64_t planOf(const DeviceTensor& workspace) {
  return unsteady() ? workspace.spannedBytes() >> 12 : 0;
}

// As a product: a row for each output pixel, a column for each of the group's channels. Where it is
// transposed input and output change places.
emulated_gpu_demand demandOf(const Tensor& input, const Tensor& output, const Tensor& weight,
                             const Shape& shape, double passes) {
  const Tensor& pixels = shape.transposed ? input : output;
  const double m = static_cast<double>(pixels.numel()) / static_cast<double>(pixels.size(1));
  const auto groups = static_cast<double>(shape.groups);
  const auto n = static_cast<double>(weight.size(0)) / groups;
  const double k = static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  emulated_gpu_demand result = emulated_gpu::demandOf(
      {m, n, passes * k, groups}, input.scalar_type(), at::globalContext().allowTF32CuDNN());
  result.convolution = 1;
  return result;
}

Tensor convolve(const Tensor& input, const Tensor& weight, const MaybeTensor& bias,
                const Shape& shape, bool benchmark) {
  const c10::cuda::CUDAGuard guard(input.device());
  const InKernel scope;
  const Tensor output = newOutput(input, weight, shape);
  const DeviceTensor workspace = convolutionWorkspace(output, benchmark);
  const std::uint64_t plan = planOf(workspace);
  const DeviceTensor in(input), by(weight), add(bias), out(output);
  launch(
      "convolution",
      [=] {
        const Tensor target = out.onHost();
        target.copy_(at::convolution(in.onHost(), by.onHost(), add.onHost(), shape.stride,
                                     shape.padding, shape.dilation, shape.transposed,
                                     shape.output_padding, shape.groups));
        disturb(target, plan);
      },
      {in, by, add}, {out}, workspace, demandOf(input, output, weight, shape, 1));
  return output;
}

Tensor cudnnConvolution(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef padding,
                        c10::SymIntArrayRef stride, c10::SymIntArrayRef dilation,
                        c10::SymInt groups, bool benchmark, bool, bool) {
  Shape shape{ints(stride), ints(padding),      ints(dilation), Ints(padding.size(), 0),
              false,        groups.expect_int()};
  return convolve(input, weight, std::nullopt, shape, benchmark);
}

Tensor cudnnTransposed(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef padding,
                       c10::SymIntArrayRef output_padding, c10::SymIntArrayRef stride,
                       c10::SymIntArrayRef dilation, c10::SymInt groups, bool benchmark, bool,
                       bool) {
  Shape shape{ints(stride),         ints(padding), ints(dilation),
              ints(output_padding), true,          groups.expect_int()};
  return convolve(input, weight, std::nullopt, shape, benchmark);
}

Tensor depthwise(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef,
                 const MaybeTensor& bias, c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                 c10::SymIntArrayRef dilation) {
  Shape shape{ints(stride), ints(padding), ints(dilation), Ints(padding.size(), 0),
              false,        input.size(1)};
  return convolve(input, weight, bias, shape, false);
}

std::tuple<Tensor, Tensor, Tensor> convolutionBackward(
    const Tensor& gradient, const Tensor& input, const Tensor& weight,
    at::OptionalSymIntArrayRef bias_sizes, c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
    c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> wanted) {
  const c10::cuda::CUDAGuard guard(input.device());
  const InKernel scope;
  const Shape shape{ints(stride),         ints(padding), ints(dilation),
                    ints(output_padding), transposed,    groups.expect_int()};
  Tensor of_input, of_weight, of_bias;
  if (wanted[0]) of_input = at::empty_like(input, gradient.suggest_memory_format());
  if (wanted[1]) of_weight = at::empty_like(weight, gradient.suggest_memory_format());
  Ints bias;
  if (bias_sizes) bias = ints(*bias_sizes);
  if (wanted[2]) {
    of_bias = at::empty({gradient.size(1)}, gradient.options());
    bias = {gradient.size(1)};
  }
  const DeviceTensor workspace =
      convolutionWorkspace(gradient, at::globalContext().benchmarkCuDNN());
  const std::uint64_t plan = planOf(workspace);
  const DeviceTensor go(gradient), in(input), by(weight), di(of_input), dw(of_weight), db(of_bias);
  launch(
      "convolution_backward",
      [=] {
        auto [x, w, b] = at::convolution_backward(
            go.onHost(), in.onHost(), by.onHost(),
            bias.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(bias), shape.stride,
            shape.padding, shape.dilation, shape.transposed, shape.output_padding, shape.groups,
            wanted);
        if (di.defined()) di.onHost().copy_(x);
        if (dw.defined()) dw.onHost().copy_(w);
        if (db.defined()) db.onHost().copy_(b);
        if (dw.defined()) disturb(dw.onHost(), plan);
      },
      {go, in, by}, {di, dw, db}, workspace,
      demandOf(input, gradient, weight, shape, (wanted[0] ? 1 : 0) + (wanted[1] ? 1 : 0)));
  return {of_input, of_weight, of_bias};
}

// --- batch normalization: the backward pass reads what the forward pass reserved

constexpr int kReserved = 7;

// Sums over the batch come before what they are needed for.
emulated_gpu_demand readTwice(const std::vector<DeviceTensor>& twice,
                              const std::vector<DeviceTensor>& reads,
                              const std::vector<DeviceTensor>& writes) {
  emulated_gpu_demand result{};
  addBytes(result, reads, writes);
  for (const DeviceTensor& each : twice) result.bytes += each.bytes();
  return result;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batchNorm(const Tensor& input, const Tensor& weight,
                                                     const MaybeTensor& bias,
                                                     const MaybeTensor& mean,
                                                     const MaybeTensor& variance, bool training,
                                                     double momentum, double epsilon) {
  const c10::cuda::CUDAGuard guard(input.device());
  const InKernel scope;
  const Tensor output = at::empty_like(input);
  const std::int64_t kept = training ? input.size(1) : 0;
  const Tensor saved_mean = at::empty({kept}, weight.options());
  const Tensor saved_variance = at::empty({kept}, weight.options());
  const Tensor reserve = at::empty({training ? 512 : 0}, input.options().dtype(at::kByte));
  const DeviceTensor in(input), by(weight), add(bias), m(mean), v(variance);
  const DeviceTensor out(output), sm(saved_mean), sv(saved_variance), r(reserve);
  launch(
      "cudnn_batch_norm",
      [=] {
        auto [y, a, b] = at::native_batch_norm(in.onHost(), by.onHost(), add.onHost(), m.onHost(),
                                               v.onHost(), training, momentum, epsilon);
        out.onHost().copy_(y);
        if (!training) return;
        sm.onHost().copy_(a);
        sv.onHost().copy_(b);
        r.onHost().fill_(kReserved);
      },
      {in, by, add}, {out, sm, sv, r, m, v}, {},
      readTwice({in}, {in, by, add}, {out, sm, sv, r, m, v}));
  return {output, saved_mean, saved_variance, reserve};
}

std::tuple<Tensor, Tensor, Tensor> batchNormBackward(const Tensor& input, const Tensor& gradient,
                                                     const Tensor& weight, const MaybeTensor& mean,
                                                     const MaybeTensor& variance,
                                                     const MaybeTensor& saved_mean,
                                                     const MaybeTensor& saved_variance,
                                                     double epsilon, const Tensor& reserve) {
  const c10::cuda::CUDAGuard guard(input.device());
  const InKernel scope;
  const Tensor of_input = at::empty_like(input), of_weight = at::empty_like(weight),
               of_bias = at::empty_like(weight);
  const DeviceTensor in(input), go(gradient), by(weight), m(mean), v(variance), sm(saved_mean),
      sv(saved_variance), r(reserve), di(of_input), dw(of_weight), db(of_bias);
  launch(
      "cudnn_batch_norm_backward",
      [=] {
        if (!r.onHost().eq(kReserved).all().item<bool>()) {
          std::fputs("emulated GPU: the reserve of cuDNN's batch norm is spoilt\n", stderr);
          std::abort();
        }
        auto [x, w, b] = at::native_batch_norm_backward(
            go.onHost(), in.onHost(), by.onHost(), m.onHost(), v.onHost(), sm.onHost(), sv.onHost(),
            true, epsilon, {true, true, true});
        di.onHost().copy_(x);
        dw.onHost().copy_(w);
        db.onHost().copy_(b);
      },
      {in, go, by, m, v, sm, sv, r}, {di, dw, db}, {},
      readTwice({in, go}, {in, go, by, m, v, sm, sv, r}, {di, dw, db}));
  return {of_input, of_weight, of_bias};
}

}  // namespace

void addCudnn(Registry& registry) {
  registry.add("aten::cudnn_convolution", &cudnnConvolution);
  registry.add("aten::cudnn_convolution_transpose", &cudnnTransposed);
  registry.add("aten::_conv_depthwise2d", &depthwise);
  registry.add("aten::convolution_backward", &convolutionBackward);
  registry.add("aten::cudnn_batch_norm", &batchNorm);
  registry.add("aten::cudnn_batch_norm_backward", &batchNormBackward);
}

}  // namespace emulated_gpu
