// What PyTorch asks of its tensors through VariableHooksInterface, seen on the way: which tensor
// autograd is about to save, and which leaf is given other data (`p.data = …`). Includes torch.
#pragma once

#include <ATen/ATen.h>

namespace ebbtide::plugin {

// Once, before autograd is asked for saved-tensor hooks.
void installVariableHooks();

// For get_default_saved_variable_hooks(), which is not told it: what the calling thread saves now.
// nullptr: not known. Right once for each tensor that is saved.
const at::Tensor* takeTensorToSave() noexcept;

}  // namespace ebbtide::plugin
