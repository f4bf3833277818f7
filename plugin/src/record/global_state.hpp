// GlobalState: the process-wide switches of PyTorch that choose a kernel or its arithmetic. An op
// is replayed under those it first ran under. Includes torch.
#pragma once

#include <ATen/Context.h>

#include <array>
#include <optional>

namespace ebbtide::plugin {

struct GlobalState {
  static constexpr std::size_t kSwitches = 7;

  // Of a GPU's libraries; where none is trained on, as it is made.
  struct Gpu {
    static constexpr std::size_t kSwitches = 9;
    bool operator==(const Gpu&) const = default;

    std::array<bool, kSwitches> switches{};           // in the order of their table
    std::array<at::Float32Precision, 3> precision{};  // convolution, RNN, matmul
    int matmul_precision = -1;                        // of all backends; -1: they differ
    at::CuBLASReductionOption fp16_reduction{}, bf16_reduction{};
    int benchmark_limit = 0;
    at::LinalgBackend linalg{};
    at::BlasBackend blas{};
    std::array<at::SDPBackend, at::num_sdp_backends> sdp_order{};
    std::optional<std::int32_t> sm_carveout;
  };

  static GlobalState now();
  bool operator==(const GlobalState&) const = default;

  std::array<bool, kSwitches> switches{};           // in the order of global_state.cpp's table
  std::array<at::Float32Precision, 3> precision{};  // oneDNN's convolution, RNN, matmul
  Gpu gpu;
  caffe2::TypeMeta default_dtype;
  int threads = 0;  // a parallel reduction sums in their number's order
};

// Sets what differs from now and puts it back at the end. The switches are the process's own: other
// threads see them too meanwhile, so a scope where nothing differs writes nothing.
class GlobalStateScope {
 public:
  explicit GlobalStateScope(const GlobalState& wanted);
  ~GlobalStateScope();
  GlobalStateScope(const GlobalStateScope&) = delete;
  GlobalStateScope& operator=(const GlobalStateScope&) = delete;

 private:
  void changePrecisions();

  const GlobalState wanted_;
  const GlobalState before_;
  // Of the CPU's and of the GPU's precisions, those that were set: what each was before. NONE: what
  // PyTorch's general one says.
  std::array<std::optional<at::Float32Precision>, 6> own_precision_{};
  bool sets_matmul_precision_ = false;  // of all backends
};

}  // namespace ebbtide::plugin
