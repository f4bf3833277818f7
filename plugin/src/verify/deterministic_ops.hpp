// DeterministicOps: operators that give the same bytes when they run again in the same process from
// the same inputs, by the same number of threads, under the same global switches, on a CPU, and
// why.
//
// Results that no verification step has compared are dropped by this list alone. So it names only
// ops whose kernels in PyTorch were examined; the results of all others are kept. Left out, with
// the reason:
//   scatter_add, index_add, index_put, scatter, put: rows that meet are added, or overwrite each
//     other, on a GPU, and some on a CPU (mayRaceOnHost), in the order in which threads come;
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

// Does it add, or overwrite, on a GPU in the order in which threads come? Often the bits are
// equal all the same, so that one verification step proves nothing. These are the forward ops that
// torch.use_deterministic_algorithms names, and the other forward scans.
bool mayDifferOnGpu(std::string_view op) noexcept;

// Do its threads on a CPU add to one place, or overwrite it, in the order in which they come? It
// depends on the call too (racing_writes.hpp). Of PyTorch 2.11: index_put and put add by atomics;
// without `accumulate` they overwrite, as index_copy and max_unpool do (cpu/IndexKernel.cpp,
// cpu/MaxUnpoolKernel.cpp). scatter, scatter_add, scatter_reduce, index_add and index_reduce leave
// rows that meet to one thread, in their order.
bool mayRaceOnHost(std::string_view op) noexcept;

// Do programs write into what it gives through NumPy or a pointer, which nobody sees? Of its
// results all bytes are compared in each step, since samples would miss a few.
bool isOftenWrittenUnseen(std::string_view op) noexcept;

}  // namespace ebbtide::plugin
