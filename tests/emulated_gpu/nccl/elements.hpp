// The data types, and reductions in rank order: bits that repeat.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>

namespace emulated_nccl {

std::size_t elementBytes(ncclDataType_t type);  // 0: no type
const char* typeName(ncclDataType_t type);      // as profiler plugins hear it

struct Reduction {
  ncclRedOp_t operation = ncclSum;
  // Each element is multiplied by it before the sum; on the host or the device. Null: by none.
  const void* scalar = nullptr;
};

// Of a rank's elements, from the n-th on.
using Read = std::function<bool(int rank, std::size_t first, void* into, std::size_t count)>;

// Whether this type has sums.
bool reduces(ncclDataType_t type);
// What a rank gives to a reduction is multiplied first: by the scalar, or, for an average of
// numbers with a fraction, by 1 / ranks, as in NCCL. `scales`: whether by anything.
bool scales(ncclDataType_t type, const Reduction& reduction);
void scale(void* into, const void* from, std::size_t count, ncclDataType_t type,
           const Reduction& reduction, int ranks);
// Rank after rank, each result rounded to the type; an average of integers divides their sum.
// False: a read failed.
bool reduce(void* into, std::size_t count, ncclDataType_t type, const Reduction& reduction,
            int ranks, const Read& read);

}  // namespace emulated_nccl
