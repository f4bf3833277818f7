#include "verify/deterministic_ops.hpp"

#include <algorithm>
#include <iterator>

namespace ebbtide::plugin {
namespace {

struct Group {
  const char* reason;
  std::string_view names;  // with spaces between and around
};

constexpr Group kGroups[] = {
    {"elementwise: each element depends on the elements at its place alone",
     " abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_not"
     " bitwise_or bitwise_xor ceil celu clamp clamp_max clamp_min conj_physical copysign cos cosh "
     "deg2rad digamma div elu eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod "
     "frac ge gelu glu gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot isfinite isinf "
     "isnan le leaky_relu lerp lgamma log log10 log1p log2 log_sigmoid_forward logaddexp "
     "logical_and logical_not logical_or logical_xor lt maximum minimum mish mul nan_to_num ne neg "
     "polar pow rad2deg reciprocal relu relu6 remainder round rsqrt rsub sgn sigmoid sign silu sin "
     "sinc sinh softplus softshrink sqrt square sub tan tanh threshold trunc where xlogy "
     "masked_fill"
     " prelu _prelu_kernel complex logit special_entr special_erfcx special_i0 "},
    {"copies: no arithmetic, each element comes from a place that the arguments say",
     " _to_copy clone copy contiguous cat stack constant_pad_nd reflection_pad1d reflection_pad2d "
     "replication_pad1d replication_pad2d repeat roll flip tril triu im2col pixel_shuffle "
     "pixel_unshuffle channel_shuffle gather index index_select embedding take "
     "native_channel_shuffle"
     " fill zero arange full full_like ones ones_like zeros zeros_like scalar_tensor eye linspace "
     "new_full new_ones new_zeros lift_fresh_copy unfold_copy split_with_sizes_copy "},
    {"memory alone: where it is read before an op has written all of it, it is not given again",
     " empty empty_like empty_strided new_empty new_empty_strided "},
    {"a reduction: elements are summed in an order that sizes, strides and the number of threads "
     "fix",
     " sum mean var var_mean std std_mean prod norm linalg_vector_norm logsumexp amax amin aminmax "
     "max min argmax argmin any all cumsum cumprod nansum dot vdot mse_loss binary_cross_entropy "
     "smooth_l1_loss huber_loss nll_loss_forward nll_loss2d_forward "},
    {"a row at a time by one thread, in the order of its elements",
     " _softmax _log_softmax _safe_softmax native_layer_norm native_group_norm _fused_rms_norm "
     "rms_norm sort topk kthvalue median cummax cummin "
     "_scaled_dot_product_flash_attention_for_cpu "},
    {"a normalisation of the batch: one thread a channel, in the order of its elements",
     " native_batch_norm _native_batch_norm_legit_no_training "},
    {"a product by oneDNN or MKL: the kernel is chosen by sizes, strides, alignment and the number "
     "of threads, and splits the sum alike each time (blocks of ours start at multiples of 64)",
     " mm bmm addmm addbmm baddbmm addmv mv addr ger outer convolution _convolution "
     "mkldnn_convolution "
     "mkldnn_linear _mkl_linear convolution_overrideable _slow_conv2d_forward slow_conv3d_forward "
     "_conv_depthwise2d _addmm_activation "},
    {"a window at a time, each output by one thread",
     " max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d "
     "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d mkldnn_max_pool2d "
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact2d "
     "upsample_bilinear2d upsample_bicubic2d upsample_linear1d upsample_trilinear3d "
     "_upsample_bilinear2d_aa grid_sampler_2d "},
    {"drawn one after another from a generator whose state before is kept",
     " bernoulli uniform normal exponential random geometric cauchy log_normal rand rand_like "
     "randn "
     "randn_like randint randint_like randperm multinomial native_dropout rrelu_with_noise "},
};

constexpr std::string_view kInNoOrderOnGpu =
    " scatter scatter_add scatter_reduce index_add index_copy index_reduce index_put "
    "_index_put_impl _unsafe_index_put _unsafe_masked_index_put_accumulate put histc bincount "
    "cumsum cumprod logcumsumexp median nanmedian kthvalue max_unpool2d max_unpool3d "
    "nll_loss2d_forward ";

// They read no tensor's elements, or copy them as they are.
constexpr std::string_view kOftenWrittenUnseen =
    " zeros zeros_like new_zeros zero ones ones_like new_ones full full_like new_full fill eye "
    "arange range linspace logspace scalar_tensor tril_indices triu_indices rand rand_like randn "
    "randn_like randint randint_like randperm normal uniform random exponential clone ";

constexpr std::string_view kRacingOnHost =
    " index_put _index_put_impl _unsafe_index_put _unsafe_masked_index_put_accumulate put "
    "index_copy max_unpool2d max_unpool3d ";

bool holds(std::string_view names, std::string_view name) {
  for (std::size_t at = names.find(name); at != std::string_view::npos;
       at = names.find(name, at + 1)) {
    if (at > 0 && names[at - 1] == ' ' && names[at + name.size()] == ' ') return true;
  }
  return false;
}

// Without its namespace, and as if it were not in place; empty for another library's.
std::string_view plainName(std::string_view op) {
  constexpr std::string_view kOurs = "aten::";
  if (!op.starts_with(kOurs)) return {};
  op.remove_prefix(kOurs.size());
  if (op.ends_with('_') && !op.ends_with("__")) op.remove_suffix(1);
  return op.find(' ') == std::string_view::npos ? op : std::string_view();
}

}  // namespace

bool mayDifferOnGpu(std::string_view op) noexcept {
  op = plainName(op);
  return !op.empty() && holds(kInNoOrderOnGpu, op);
}

bool isOftenWrittenUnseen(std::string_view op) noexcept {
  op = plainName(op);
  return !op.empty() && holds(kOftenWrittenUnseen, op);
}

bool mayRaceOnHost(std::string_view op) noexcept {
  op = plainName(op);
  return !op.empty() && holds(kRacingOnHost, op);
}

const char* whyDeterministic(std::string_view op) noexcept {
  op = plainName(op);
  if (op.empty()) return nullptr;
  const auto* const found =
      std::find_if(std::begin(kGroups), std::end(kGroups),
                   [&](const Group& group) { return holds(group.names, op); });
  return found != std::end(kGroups) ? found->reason : nullptr;
}

}  // namespace ebbtide::plugin
