#include <cstdint>

#include "contents_kernels.h"

namespace ebbtide::plugin::cuda {
namespace {

constexpr int kThreads = 256;

// splitmix64's, one-to-one.
__device__ Word mixed(Word x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Storages of others may begin anywhere.
__device__ Word wordAt(const unsigned char* data, Word bytes, Word begin) {
  const unsigned char* const at = data + begin;
  if (begin + 8 <= bytes && reinterpret_cast<std::uintptr_t>(at) % 8 == 0) {
    return *reinterpret_cast<const Word*>(at);
  }
  Word word = 0;
  for (Word i = 0; i < 8 && begin + i < bytes; ++i) word |= static_cast<Word>(at[i]) << (8 * i);
  return word;
}

struct Sums {
  Word low = 0, high = 0;

  __device__ void take(Word word, Word index) {
    low += mixed(word + mixed(2 * index + 1));
    high += mixed(word + mixed(~(2 * index)));
  }
  __device__ void addTo(Word* sums) const {
    Word a = low, b = high;
    for (int apart = 16; apart > 0; apart /= 2) {
      a += __shfl_down_sync(0xffffffffU, a, apart);
      b += __shfl_down_sync(0xffffffffU, b, apart);
    }
    if (threadIdx.x % 32 == 0) {
      atomicAdd(sums, a);
      atomicAdd(sums + 1, b);
    }
  }
};

__device__ Word thisThread() {
  return blockIdx.x * static_cast<Word>(blockDim.x) + threadIdx.x;
}
__device__ Word allThreads() {
  return gridDim.x * static_cast<Word>(blockDim.x);
}

__global__ void sumAll(const unsigned char* data, Word bytes, Word* sums) {
  Sums own;
  for (Word i = thisThread(); i * 8 < bytes; i += allThreads()) {
    own.take(wordAt(data, bytes, i * 8), i);
  }
  own.addTo(sums);
}

__global__ void countDifferences(const unsigned char* a, const unsigned char* b, Word bytes,
                                 Word* differences) {
  Word found = 0;
  for (Word i = thisThread(); i * 8 < bytes; i += allThreads()) {
    found += wordAt(a, bytes, i * 8) != wordAt(b, bytes, i * 8) ? 1 : 0;
  }
  if (found > 0) atomicAdd(differences, found);
}

__device__ Word byteOf(Word word, int index) {
  return word >> (8 * index) & 0xff;
}

__global__ void countWrittenDifferences(const unsigned char* original, const unsigned char* first,
                                        Word first_pattern, const unsigned char* second,
                                        Word second_pattern, Word bytes, Word* differences) {
  Word found = 0;
  const bool two_patterns = first_pattern != second_pattern;
  for (Word i = thisThread(); i * 8 < bytes; i += allThreads()) {
    const Word wanted = wordAt(original, bytes, i * 8);
    const Word one = wordAt(first, bytes, i * 8);
    const Word other = wordAt(second, bytes, i * 8);
    if (one == wanted && other == wanted) continue;
    for (int at = 0; at < 8 && i * 8 + at < bytes; ++at) {
      const Word a = byteOf(one, at), b = byteOf(other, at), w = byteOf(wanted, at);
      const bool written = a != first_pattern || b != second_pattern || !two_patterns;
      found += written && (a != w || b != w) ? 1 : 0;
    }
  }
  if (found > 0) atomicAdd(differences, found);
}

unsigned blocksFor(Word words) {
  const Word blocks = (words + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1024 ? (blocks > 0 ? blocks : 1) : 1024);
}

}  // namespace

cudaError_t addSums(const void* data, Word bytes, Word* sums, cudaStream_t stream) {
  sumAll<<<blocksFor((bytes + 7) / 8), kThreads, 0, stream>>>(
      static_cast<const unsigned char*>(data), bytes, sums);
  return cudaGetLastError();
}

cudaError_t addDifferences(const void* a, const void* b, Word bytes, Word* differences,
                           cudaStream_t stream) {
  countDifferences<<<blocksFor((bytes + 7) / 8), kThreads, 0, stream>>>(
      static_cast<const unsigned char*>(a), static_cast<const unsigned char*>(b), bytes,
      differences);
  return cudaGetLastError();
}

cudaError_t addWrittenDifferences(const void* original, FilledBytes first, FilledBytes second,
                                  Word bytes, Word* differences, cudaStream_t stream) {
  countWrittenDifferences<<<blocksFor((bytes + 7) / 8), kThreads, 0, stream>>>(
      static_cast<const unsigned char*>(original), static_cast<const unsigned char*>(first.data),
      first.pattern, static_cast<const unsigned char*>(second.data), second.pattern, bytes,
      differences);
  return cudaGetLastError();
}

}  // namespace ebbtide::plugin::cuda
