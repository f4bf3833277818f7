// Tensors as a kernel has them: addresses, sizes and types. A task that held a tensor would keep
// its block from being freed, and hide every use after that.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <ATen/cuda/PhiloxCudaState.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "seam.h"

namespace emulated_gpu {

// As within a kernel: no autograd, nothing observed, none of the caller's modes.
class InKernel {
 public:
  InKernel();

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  at::DisableRecordFunctionGuard unobserved_;
  c10::AutoGradMode no_gradients_{false};
};

// The emulator's own time, and torch's and Ebbtide's within it (host_time.hpp).
class InEmulator {
 public:
  InEmulator() { emulated_gpu_enter(); }
  ~InEmulator() { emulated_gpu_leave(); }
  InEmulator(const InEmulator&) = delete;
  InEmulator& operator=(const InEmulator&) = delete;
};
class OutsideOfEmulator {
 public:
  OutsideOfEmulator() : depth_(emulated_gpu_outside()) {}
  ~OutsideOfEmulator() { emulated_gpu_inside(depth_); }
  OutsideOfEmulator(const OutsideOfEmulator&) = delete;
  OutsideOfEmulator& operator=(const OutsideOfEmulator&) = delete;

 private:
  const int depth_;
};

class DeviceTensor {
 public:
  DeviceTensor() = default;
  // Of a tensor of the host the values: a kernel has read them when it is launched.
  explicit DeviceTensor(const at::Tensor& tensor);
  explicit DeviceTensor(const std::optional<at::Tensor>& tensor)
      : DeviceTensor(tensor.value_or(at::Tensor())) {}

  // A kernel's workspace.
  static DeviceTensor ofBytes(void* begin, std::size_t bytes);

  bool defined() const { return defined_; }
  bool onDevice() const { return on_device_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  // A view of the same bytes for the host's kernels.
  at::Tensor onHost() const;
  // No bytes: what Meta kernels are asked with.
  at::Tensor onMeta() const;
  // From the first byte to the last, those between its rows too.
  std::size_t spannedBytes() const;
  // Its bytes only: rows, and rows of rows.
  std::vector<emulated_gpu_access> accesses(bool writes) const;
  const void* data() const { return data_; }
  c10::ScalarType type() const { return type_; }
  std::size_t bytes() const;  // that are its own: those that a stride of 0 repeats once

 private:
  void* data_ = nullptr;
  std::vector<std::int64_t> sizes_, strides_;
  c10::ScalarType type_{};
  bool on_device_ = false, defined_ = false;
  at::Tensor host_;
};

// Each tensor of a value, of its lists too, replaced.
c10::IValue mapTensors(const c10::IValue& value,
                       const std::function<at::Tensor(const at::Tensor&)>& replace);

// Draws as CUDA's kernels do: by the seed and the offset of torch's generator, moved on by what the
// op takes; both are read when the task runs, from the device where a graph was captured.
class Draws {
 public:
  static Draws take(const std::optional<at::Generator>& given, std::int64_t numbers);
  explicit Draws(at::PhiloxCudaState state) : state_(state) {}
  std::int64_t seed() const;
  std::int64_t offset() const;
  at::Generator generator() const { return generatorOf(seed(), offset()); }
  static at::Generator generatorOf(std::int64_t seed, std::int64_t offset);

 private:
  at::PhiloxCudaState state_;
};

cudaStream_t currentStream();
bool capturing();

// run() on the current stream, in a kernel's scope. Its reads and writes are told to the stream;
// those of its workspace cost no time. `demand`: its operations, for mode *clock*, which runs
// nothing. Bytes are added where there are none.
void launch(const char* name, std::function<void()> run, const std::vector<DeviceTensor>& reads,
            const std::vector<DeviceTensor>& writes, const DeviceTensor& workspace = {},
            emulated_gpu_demand demand = {});
// It ran already, after a wait for the current stream.
void tellOrder(const char* name, const std::vector<DeviceTensor>& reads,
               const std::vector<DeviceTensor>& writes);

}  // namespace emulated_gpu
