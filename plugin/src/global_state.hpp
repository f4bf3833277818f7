// GlobalState: the process-wide switches of PyTorch that choose a kernel or its arithmetic. An op
// is replayed under those it first ran under. Includes torch.
#pragma once

#include <ATen/Context.h>

#include <array>

namespace ebbtide::plugin {

struct GlobalState {
  static constexpr std::size_t kSwitches = 7;

  static GlobalState now();
  bool operator==(const GlobalState&) const = default;

  std::array<bool, kSwitches> switches{};           // in the order of global_state.cpp's table
  std::array<at::Float32Precision, 3> precision{};  // oneDNN's convolution, RNN, matmul
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
  const GlobalState wanted_;
  const GlobalState before_;
  std::array<at::Float32Precision, 3>
      own_precision_{};  // before; NONE: what PyTorch's general one says
};

}  // namespace ebbtide::plugin
