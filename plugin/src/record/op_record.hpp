// OpRecord: an op, its frozen arguments, references to its input values, the random state and the
// global switches before it: enough to compute its outputs again, bit for bit. Includes torch.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/DimVector.h>
#include <c10/util/FunctionRef.h>

#include <vector>

#include "base/byte_range.hpp"
#include "ebbtide/scheduler/units.hpp"
#include "record/global_state.hpp"
#include "record/op_info.hpp"

namespace ebbtide::plugin {

// How a tensor looks at its storage. Views cost nothing and are never recomputed: only this is kept
// of them.
struct TensorView {
  c10::DimVector sizes;
  c10::DimVector strides;
  std::int64_t offset = 0;
  caffe2::TypeMeta dtype;
  std::size_t storage_bytes = 0;  // that its last element needs

  static TensorView of(const at::Tensor& tensor);
  ByteRange bytes() const noexcept;
  std::int64_t readBytes() const noexcept;  // by who reads each element
  bool isOf(const c10::TensorImpl& tensor) const;
  // Of the same storage, no byte in both, as parts that split and chunk make. False when unsure.
  bool isApartFrom(const TensorView& other) const;
  // No dispatch. Throws when the storage has become too small.
  at::Tensor on(const c10::Storage& storage) const;
  // The same, whose shallow copy no TorchDispatchMode sees.
  at::Tensor unseenOn(const c10::Storage& storage) const;

 private:
  template <typename Impl>
  at::Tensor make(const c10::Storage& storage) const;
};

// What the tensor looks at of its storage, from its first element to its last. Torch makes the
// storage of some results larger (mse_loss: as large as its input), and writes nothing there.
ByteRange bytesOf(const at::Tensor& tensor);

// A dense tensor on the training device with memory of its own kind: the only sort whose storage we
// ever release.
bool isPlain(const at::Tensor& tensor);
// The same without any memory: nothing but sizes and strides.
bool isEmpty(const at::Tensor& tensor);

struct OpRecord {
  struct Input {
    int argument = 0;
    int element = -1;  // in a list argument; -1: the argument itself
    scheduler::ValueId value = scheduler::kNone;
    TensorView view;
  };

  const OpInfo* info = nullptr;
  std::vector<c10::IValue> arguments;  // input tensors left out
  std::vector<Input> inputs;
  at::Tensor random_state;  // of `generator`, before the op; undefined: draws nothing
  at::Generator generator;
  GlobalState state;
  // The op writes one tensor, and autograd saves a copy of what was there (VariableTypeUtils.h).
  bool saves_what_it_writes_over = false;

  // The tensors that the op returned, lists flattened, and that copy last.
  using Outputs = std::vector<at::Tensor>;
  // Runs the op again. `input` gives the storage of a value; a written input must be one that may
  // be written. Throws what the op throws. The random state is as before when it returns. The
  // caller's modes and transforms do not apply.
  Outputs replay(c10::function_ref<c10::Storage(const Input&)> input) const;
};

// Visits the tensors among an op's arguments or results: (argument index, element or -1, tensor).
// Elements of nested lists (gathering collectives) are numbered through.
void forEachTensor(c10::ArrayRef<const c10::IValue> values,
                   c10::function_ref<void(int, int, const at::Tensor&)> visit);

// Copies arguments so that later changes to lists do not reach the op record; plain input tensors
// become undefined, empty ones are made anew.
std::vector<c10::IValue> freezeArguments(c10::ArrayRef<const c10::IValue> values);

// Puts a generator back as it was when the scope ends, also after an exception.
class RandomStateScope {
 public:
  // `state` is what it starts from; undefined: what it is.
  RandomStateScope(const at::Generator& generator, const at::Tensor& state);
  ~RandomStateScope();
  RandomStateScope(const RandomStateScope&) = delete;
  RandomStateScope& operator=(const RandomStateScope&) = delete;

  bool drawn();  // is the state another one than at the begin?

 private:
  at::Generator generator_;
  at::Tensor saved_;
  at::Generator shared_;  // of a GPU's: its state itself, that nothing is drawn from meanwhile
};

// To be called once, on a thread where no mode and no transform is active: replays run under its
// thread-local state.
void rememberCleanThreadState();

}  // namespace ebbtide::plugin
