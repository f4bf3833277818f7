// StandIn: a tensor that looks like one that a checkpoint's frame would keep, and has no memory:
// its storage owns our SavedTensor of the real one, which can be spilled. Includes torch.
//
//   pack ─► standInFor(x) ─► the frame's dictionary ─► unpack ─► contentsOf() ─► x again
//                                    └─ let go of: the saved tensor ends with the storage
//
// Whoever reads one otherwise gets an error. Thread rule: any thread, one at a time.
#pragma once

#include <ATen/ATen.h>

namespace ebbtide::plugin {

// Of a tensor that the thread's step is to manage (SavedTensor::isOfAStep).
at::Tensor standInFor(const at::Tensor& tensor);

// What the stand-in stands for; undefined: it is none. Throws what SavedTensor does.
at::Tensor contentsOf(const at::Tensor& tensor);

}  // namespace ebbtide::plugin
