/* What libcudart.so.13 of the emulated GPU gives to the libraries of host kernels and of operators.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const void* begin;
  size_t bytes;
  int writes;
  size_t rows, pitch; /* so many runs of `bytes`, so far apart */
} emulated_gpu_access;

/* At the stream's end: run(data) when the stream comes to it, end(data) when it is forgotten. A
 * captured stream keeps it as a node, which each replay runs. `bytes` decide its time. */
cudaError_t emulated_gpu_enqueue(cudaStream_t stream, const char* name, void (*run)(void*),
                                 void (*end)(void*), void* data, size_t bytes,
                                 const emulated_gpu_access* accesses, size_t count);
void emulated_gpu_drain(cudaStream_t stream);
/* The order checker (order.hpp): whether it is on; what ran on the stream while it was waited for;
 * what the host reads or writes of pinned memory; the reports so far, no longer in the exit status.
 */
int emulated_gpu_order(void);
void emulated_gpu_ran(cudaStream_t stream, const char* name, const emulated_gpu_access* accesses,
                      size_t count);
void emulated_gpu_host_access(const char* name, const void* begin, size_t bytes, int writes);
size_t emulated_gpu_order_reports(void);
int emulated_gpu_capturing(cudaStream_t stream);
int emulated_gpu_whole_grid(void);
void emulated_gpu_register_kernel(const char* name, const size_t* sizes, size_t count,
                                  void (*run)(dim3, dim3, void**));

#ifdef __cplusplus
}
#endif
