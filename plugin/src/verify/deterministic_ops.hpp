// DeterministicOps: operators that give the same bytes when they run again in the same process from
// the same inputs, by the same number of threads, under the same global switches, on a CPU, and
// why.
//
// What no verification step has compared is dropped by this list alone. So it names only what was
// looked at in PyTorch's kernels; all else is kept. Left out, with the reason:
//   scatter_add, index_add, index_put, scatter, put: rows that meet are added, or overwrite each
//     other, in the order in which threads come;
//   random operations of other libraries: their generator's state is not recorded;
//   collectives and operators of other namespaces: effects that nobody declares;
//   item, nonzero, unique, masked_select: what they give sizes to would have to be foreseen;
//   recurrent layers of oneDNN (mkldnn_rnn_layer): nobody has looked at their workspace;
//   sparse and quantised ones: never recorded.
// Torch-free.
#pragma once

#include <string_view>

namespace ebbtide::plugin {

// Why the operator repeats exactly: "aten::relu_" as "aten::relu". nullptr: it is not known to.
const char* whyDeterministic(std::string_view op) noexcept;

// Does it add, or overwrite, on a GPU in the order in which threads come? Often the bits are the
// same all the same, so that one verification step proves nothing: those that
// torch.use_deterministic_algorithms names of forward passes, and the other scans of theirs.
bool mayDifferOnGpu(std::string_view op) noexcept;

}  // namespace ebbtide::plugin
