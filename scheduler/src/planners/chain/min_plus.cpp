#include "planners/chain/min_plus.hpp"

#include <algorithm>

// Eight numbers at a time in the vectors of GCC and Clang; each is compiled for AVX2 and for the
// baseline, and the processor decides.
namespace ebbtide::scheduler {
namespace {

typedef std::int32_t Lanes __attribute__((vector_size(32), aligned(4), may_alias));
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(std::int32_t);

#define EBBTIDE_INLINE inline __attribute__((always_inline))

EBBTIDE_INLINE void sumLoop(std::int32_t* to, const std::int32_t* a, const std::int32_t* b,
                            std::int32_t add, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes& target = *reinterpret_cast<Lanes*>(to + i);
    const Lanes sum =
        *reinterpret_cast<const Lanes*>(a + i) + *reinterpret_cast<const Lanes*>(b + i) + add;
    target = sum < target ? sum : target;
  }
  for (; i < count; ++i) to[i] = std::min(to[i], a[i] + b[i] + add);
}

EBBTIDE_INLINE void addLoop(std::int32_t* to, const std::int32_t* a, std::int32_t add,
                            std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes& target = *reinterpret_cast<Lanes*>(to + i);
    const Lanes sum = *reinterpret_cast<const Lanes*>(a + i) + add;
    target = sum < target ? sum : target;
  }
  for (; i < count; ++i) to[i] = std::min(to[i], a[i] + add);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void sumLoopWide(std::int32_t* to, const std::int32_t* a,
                                                 const std::int32_t* b, std::int32_t add,
                                                 std::size_t count) {
  sumLoop(to, a, b, add, count);
}

__attribute__((target("avx2"))) void addLoopWide(std::int32_t* to, const std::int32_t* a,
                                                 std::int32_t add, std::size_t count) {
  addLoop(to, a, add, count);
}

bool wide() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#endif

}  // namespace

void minPlus(std::int32_t* to, const std::int32_t* a, const std::int32_t* b, std::int32_t add,
             std::size_t count) {
#if defined(__x86_64__)
  if (wide()) return sumLoopWide(to, a, b, add, count);
#endif
  sumLoop(to, a, b, add, count);
}

void minPlus(std::int32_t* to, const std::int32_t* a, std::int32_t add, std::size_t count) {
#if defined(__x86_64__)
  if (wide()) return addLoopWide(to, a, add, count);
#endif
  addLoop(to, a, add, count);
}

}  // namespace ebbtide::scheduler
