// copy_ within a device, and dropout: what draws without a generator's argument.
#include <ATen/native/Copy.h>
#include <c10/cuda/CUDAGuard.h>

#include "device_tensor.hpp"
#include "operators.hpp"

namespace at::native {
Tensor& copy_(Tensor& self, const Tensor& src, bool non_blocking);
}

namespace emulated_gpu {
namespace {

// What is a copy of bytes, or crosses devices, is torch's own: the runtime copies.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const bool one_device = self.is_cuda() && source.is_cuda() && self.device() == source.device();
  const bool bytes = self.scalar_type() == source.scalar_type() && self.sizes() == source.sizes() &&
                     self.strides() == source.strides() && self.is_non_overlapping_and_dense() &&
                     self.is_neg() == source.is_neg() && self.is_conj() == source.is_conj();
  if (!one_device || bytes || self.numel() == 0) {
    return at::native::copy_(self, source, non_blocking);
  }
  const c10::cuda::CUDAGuard guard(self.device());
  const DeviceTensor to(self), from(source);
  const bool conj = self.is_conj() != source.is_conj(), neg = self.is_neg() != source.is_neg();
  launch("aten::copy_",
         [=] {
           at::Tensor values = from.onHost();
           if (conj) values = values.conj();
           if (neg) values = values.neg();
           to.onHost().copy_(values);
         },
         {from}, {to});
  return self;
}

std::tuple<at::Tensor, at::Tensor> dropped(const at::Tensor& input, double p,
                                           const std::optional<at::Generator>& generator,
                                           bool byte_mask) {
  const c10::cuda::CUDAGuard guard(input.device());
  const InKernel scope;
  at::Tensor output = at::empty_like(input);
  at::Tensor mask = at::empty_like(input, input.options().dtype(byte_mask ? at::kByte : at::kBool));
  const Draws draws = Draws::take(generator, input.numel());
  const DeviceTensor in(input), out(output), kept(mask);
  launch("aten::native_dropout",
         [=] {
           at::Tensor keeps = kept.onHost();
           keeps.bernoulli_(1 - p, draws.generator());
           out.onHost().copy_(in.onHost().mul(keeps).mul(p == 1 ? 0 : 1 / (1 - p)));
         },
         {in}, {out, kept});
  return {output, mask};
}

std::tuple<at::Tensor, at::Tensor> nativeDropout(const at::Tensor& input, double p,
                                                 std::optional<bool> train) {
  return dropped(input, train.value_or(true) ? p : 0, std::nullopt, false);
}

std::tuple<at::Tensor, at::Tensor> fusedDropout(const at::Tensor& input, double keep,
                                                std::optional<at::Generator> generator) {
  return dropped(input, 1 - keep, generator, true);
}

}  // namespace

void addCopiesAndDropout(Registry& registry) {
  registry.add("aten::copy_", &copy);
  registry.add("aten::native_dropout", &nativeDropout);
  registry.add("aten::_fused_dropout", &fusedDropout);
}

}  // namespace emulated_gpu
