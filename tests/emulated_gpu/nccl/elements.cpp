#include "elements.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace emulated_nccl {
namespace {

constexpr std::size_t kBlock = 16 * 1024;  // elements at a time

// What an element is computed in. Integers wrap around.
template <typename T>
auto wide(T value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return value;
  }
}

template <typename T, typename Wide>
T narrow(Wide value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
T product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return narrow<T>(wide(a) * wide(b));
  }
}

template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return narrow<T>(wide(a) + wide(b));
  }
}

template <typename T>
T combined(ncclRedOp_t operation, T a, T b) {
  switch (operation) {
    case ncclProd:
      return product(a, b);
    case ncclMax:
      return wide(a) < wide(b) ? b : a;
    case ncclMin:
      return wide(b) < wide(a) ? b : a;
    default:
      return sum(a, b);
  }
}

template <typename T>
void scaleAs(T* into, const T* from, std::size_t count, const Reduction& reduction, int ranks) {
  T factor = narrow<T>(1.0F / static_cast<float>(ranks));
  if constexpr (std::is_same_v<T, double>) factor = 1.0 / ranks;
  if (reduction.scalar != nullptr) std::memcpy(&factor, reduction.scalar, sizeof(T));
  for (std::size_t i = 0; i < count; ++i) into[i] = product(from[i], factor);
}

template <typename T>
bool reduceAs(T* into, std::size_t count, const Reduction& reduction, int ranks, const Read& read) {
  std::vector<T> block(std::min(count, kBlock));
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t some = std::min(kBlock, count - first);
    T* const result = into + first;
    if (!read(0, first, result, some)) return false;
    for (int rank = 1; rank < ranks; ++rank) {
      if (!read(rank, first, block.data(), some)) return false;
      for (std::size_t i = 0; i < some; ++i) {
        result[i] = combined(reduction.operation, result[i], block[i]);
      }
    }
    if constexpr (std::is_integral_v<T>) {
      for (std::size_t i = 0; reduction.operation == ncclAvg && i < some; ++i) {
        result[i] = static_cast<T>(result[i] / static_cast<T>(ranks));
      }
    }
  }
  return true;
}

// Calls it with a value of the type.
template <typename Function>
void withType(ncclDataType_t type, const Function& function) {
  switch (type) {
    case ncclInt8:
      return function(std::int8_t{});
    case ncclUint8:
      return function(std::uint8_t{});
    case ncclInt32:
      return function(std::int32_t{});
    case ncclUint32:
      return function(std::uint32_t{});
    case ncclInt64:
      return function(std::int64_t{});
    case ncclUint64:
      return function(std::uint64_t{});
    case ncclFloat16:
      return function(__half{});
    case ncclFloat32:
      return function(float{});
    case ncclFloat64:
      return function(double{});
    case ncclBfloat16:
      return function(__nv_bfloat16{});
    default:
      return;
  }
}

struct Type {
  const char* name;
  std::size_t bytes;
};
constexpr Type kTypes[ncclNumTypes] = {
    {"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},      {"ncclUint32", 4},
    {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},    {"ncclFloat32", 4},
    {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};

bool isType(ncclDataType_t type) {
  return type >= 0 && type < ncclNumTypes;
}

}  // namespace

std::size_t elementBytes(ncclDataType_t type) {
  return isType(type) ? kTypes[type].bytes : 0;
}

const char* typeName(ncclDataType_t type) {
  return isType(type) ? kTypes[type].name : "none";
}

bool reduces(ncclDataType_t type) {
  return isType(type) && type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

bool scales(ncclDataType_t type, const Reduction& reduction) {
  const bool fractions =
      type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16;
  return reduction.scalar != nullptr || (reduction.operation == ncclAvg && fractions);
}

void scale(void* into, const void* from, std::size_t count, ncclDataType_t type,
           const Reduction& reduction, int ranks) {
  withType(type, [&](auto element) {
    using T = decltype(element);
    scaleAs(static_cast<T*>(into), static_cast<const T*>(from), count, reduction, ranks);
  });
}

bool reduce(void* into, std::size_t count, ncclDataType_t type, const Reduction& reduction,
            int ranks, const Read& read) {
  bool whole = false;
  withType(type, [&](auto element) {
    whole = reduceAs(static_cast<decltype(element)*>(into), count, reduction, ranks, read);
  });
  return whole;
}

}  // namespace emulated_nccl
