// Sums and differences of bytes on a GPU. C++17, no header of ours or of torch's: nvcc compiles the
// kernels alone.
#pragma once

#include <cuda_runtime_api.h>

namespace ebbtide::plugin::cuda {

using Word = unsigned long long;

// All results are added to two words (one) that the caller has set to zero on the device.
//
// Word i of the data, of 8 bytes, the last one filled up with zeros, adds mix(word + key(i)) to
// each sum, with other keys for each. Both steps are one-to-one in the word: one changed word
// always shows, in both sums, and additions may come in any order.
cudaError_t addSums(const void* data, Word bytes, Word* sums, cudaStream_t stream);
cudaError_t addDifferences(const void* a, const void* b, Word bytes, Word* differences,
                           cudaStream_t stream);

// What a kernel wrote into memory that was filled before.
struct FilledBytes {
  const void* data;
  unsigned char pattern;
};
// As unwritten_bytes.hpp has it: bytes with their pattern in both count for nothing.
cudaError_t addWrittenDifferences(const void* original, FilledBytes first, FilledBytes second,
                                  Word bytes, Word* differences, cudaStream_t stream);

}  // namespace ebbtide::plugin::cuda
