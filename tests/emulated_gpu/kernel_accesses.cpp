#include "kernel_accesses.hpp"

#include <cstring>
#include <map>

namespace emulated_gpu {
namespace {

constexpr std::size_t kWord = 8;  // bytes of a counter

template <typename T>
T argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}
const void* address(void** arguments, int index) {
  return argument<const void*>(arguments, index);
}
std::size_t size(void** arguments, int index) {
  return argument<unsigned long long>(arguments, index);
}

using Accesses = std::vector<Access> (*)(void** arguments);

const std::map<std::string, Accesses>& known() {
  static const std::map<std::string, Accesses> all = {
      {"write",
       [](void** a) -> std::vector<Access> {
         return {{address(a, 0), 4 * size(a, 1), true}};
       }},
      {"check",
       [](void** a) -> std::vector<Access> {
         return {{address(a, 0), 4 * size(a, 1), false}, {address(a, 3), kWord, true}};
       }},
      {"sumAll",
       [](void** a) -> std::vector<Access> {
         return {{address(a, 0), size(a, 1), false}, {address(a, 2), 2 * kWord, true}};
       }},
      {"countDifferences",
       [](void** a) -> std::vector<Access> {
         return {{address(a, 0), size(a, 2), false},
                 {address(a, 1), size(a, 2), false},
                 {address(a, 3), kWord, true}};
       }},
      {"countWrittenDifferences",
       [](void** a) -> std::vector<Access> {
         return {{address(a, 0), size(a, 5), false},
                 {address(a, 1), size(a, 5), false},
                 {address(a, 3), size(a, 5), false},
                 {address(a, 6), kWord, true}};
       }},
  };
  return all;
}

}  // namespace

std::vector<Access> kernelAccesses(const std::string& name, void** arguments) {
  const auto found = known().find(name);
  return found == known().end() ? std::vector<Access>() : found->second(arguments);
}

}  // namespace emulated_gpu
