/* What libcudart.so.13 of the emulated GPU gives to the libraries of host kernels, of operators,
 * and of NCCL. */
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

/* What a kernel asks of the device. `spanned`: from the first byte to the last of its tensors,
 * which decides its time in *bits*; the rest is *clock*'s: bytes read and written, each once; a
 * product of [batch, m, k] and [batch, k, n], of bytes of this type; operations of attention. */
typedef struct {
  size_t spanned, bytes;
  double m, n, k, batch;
  double attention;
  int convolution; /* the product is one's */
  enum { EMULATED_GPU_FLOAT, EMULATED_GPU_TF32, EMULATED_GPU_HALF } format;
} emulated_gpu_demand;

/* At the stream's end: run(data) when the stream comes to it, end(data) when it is forgotten. A
 * captured stream keeps it as a node, which each replay runs. Mode *clock* runs nothing. */
cudaError_t emulated_gpu_enqueue(cudaStream_t stream, const char* name, void (*run)(void*),
                                 void (*end)(void*), void* data, const emulated_gpu_demand* demand,
                                 const emulated_gpu_access* accesses, size_t count);
/* The same of a task that other processes take part in: it is done once ready(data) is not 0, which
 * is asked when the stream comes to it, and again at each look. Never for a stream that is broken.
 * It takes `nanoseconds` of the stream's virtual time. */
cudaError_t emulated_gpu_enqueue_when(cudaStream_t stream, int (*ready)(void*), void (*run)(void*),
                                      void (*end)(void*), void* data, double nanoseconds,
                                      const emulated_gpu_access* accesses, size_t count);
/* The stream itself, where the handle means the legacy stream of this thread's device. */
cudaStream_t emulated_gpu_stream(cudaStream_t stream);
/* How many tasks the stream was asked for; what it is asked for next comes after so many of
 * `other`'s. Captures have no such order. */
unsigned long emulated_gpu_tasks(cudaStream_t stream);
void emulated_gpu_await(cudaStream_t stream, cudaStream_t other, unsigned long tasks);
/* One look at the stream; not 0 when nothing is left. */
int emulated_gpu_look(cudaStream_t stream);
/* The stream's virtual time in nanoseconds, which is `at_least` from now on. */
double emulated_gpu_clock(cudaStream_t stream, double at_least);
/* A sticky error: nothing more runs on the stream's device. */
void emulated_gpu_break(cudaStream_t stream);
void emulated_gpu_drain(cudaStream_t stream);
/* The order checker (order.hpp): whether it is on; what ran on the stream while it was waited for;
 * what the host reads or writes of pinned memory; the reports so far, no longer in the exit status.
 */
int emulated_gpu_order(void);
void emulated_gpu_ran(cudaStream_t stream, const char* name, const emulated_gpu_access* accesses,
                      size_t count);
void emulated_gpu_host_access(const char* name, const void* begin, size_t bytes, int writes);
size_t emulated_gpu_order_reports(void);
/* Mode *clock*: kernels are not run, what they would have written is not there. */
int emulated_gpu_clock_mode(void);
/* What an operation of NCCL takes once all ranks are there, in nanoseconds; below 0: not timed. */
double emulated_gpu_communication_time(size_t bytes, int ranks);
/* This thread's processor time is the emulator's own between enter and leave (host_time.hpp). */
void emulated_gpu_enter(void);
void emulated_gpu_leave(void);
int emulated_gpu_outside(void);
void emulated_gpu_inside(int depth);
/* The virtual clock's figures so far (host_time.hpp), in this order: now, processor, calls, waited,
 * stalled, device busy, in nanoseconds; waits, launches, copies, page calls; bytes of the device in
 * use, and at most. Writes at most `room`, returns how many there are. */
size_t emulated_gpu_times(double* figures, size_t room);
int emulated_gpu_capturing(cudaStream_t stream);
/* EMULATED_GPU_* are read anew: in a process that was forked before it asked for anything. */
void emulated_gpu_read_settings(void);
int emulated_gpu_whole_grid(void);
void emulated_gpu_register_kernel(const char* name, const size_t* sizes, size_t count,
                                  void (*run)(dim3, dim3, void**));

#ifdef __cplusplus
}
#endif
