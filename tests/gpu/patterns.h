// What the kernels of patterns.cu do, queued on a stream.
#pragma once

#include <cuda_runtime_api.h>

// Fills whole words of a block with what only this seed gives.
cudaError_t writePattern(void* block, unsigned long long bytes, unsigned long long seed,
                         cudaStream_t stream);
// Adds the number of words that are others to *wrong, which is device memory.
cudaError_t checkPattern(const void* block, unsigned long long bytes, unsigned long long seed,
                         unsigned long long* wrong, cudaStream_t stream);
// Keeps the stream busy for so many cycles of a multiprocessor.
cudaError_t spinFor(long long cycles, cudaStream_t stream);
