#include "kernels.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "kernel_accesses.hpp"
#include "settings.hpp"

namespace emulated_gpu {
namespace {

struct HostKernel {
  std::vector<std::size_t> sizes;
  RunKernel run = nullptr;
};

struct Kernel {
  std::string name;  // without namespaces and parameters
  const HostKernel* host = nullptr;
};

std::map<const void*, Kernel>& kernels() {
  static auto* const all = new std::map<const void*, Kernel>;
  return *all;
}

// Libraries register before and after each other's kernels.
std::map<std::string, HostKernel>& hostKernels() {
  static auto* const all = new std::map<std::string, HostKernel>;
  return *all;
}

std::string shortName(const char* mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  for (auto at = name.find("(anonymous namespace)::"); at != std::string::npos;
       at = name.find("(anonymous namespace)::")) {
    name.erase(at, std::strlen("(anonymous namespace)::"));
  }
  name = name.substr(0, name.find_first_of("(<"));
  const auto colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

// A kernel that waits for a time: it is looked at often before it is done, and takes virtual time.
Work spin(void** arguments) {
  constexpr long long kCyclesPerLook = 400'000;
  long long cycles = 0;
  std::memcpy(&cycles, arguments[0], sizeof cycles);
  return {.cost = spinTime(cycles),
          .looks = static_cast<long>(cycles / kCyclesPerLook) + 4,
          .kernel = true,
          .name = "spin"};
}

}  // namespace

void registerKernel(const void* function, const char* mangled) {
  kernels()[function] = {shortName(mangled), nullptr};
}

void registerHostKernel(const char* name, std::vector<std::size_t> sizes, RunKernel run) {
  hostKernels()[name] = {std::move(sizes), run};
}

CUresult launchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                      CUstream stream) {
  const auto found = kernels().find(function);
  if (found == kernels().end()) return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
  Kernel& kernel = found->second;
  const bool valid = grid.x * grid.y * grid.z > 0 && block.x * block.y * block.z > 0 &&
                     block.x * block.y * block.z <= 1024;
  if (!valid) return static_cast<CUresult>(cudaErrorInvalidConfiguration);
  if (kernel.name == "spin" || kernel.name == "spin_kernel")
    return enqueue(stream, spin(arguments));
  if (kernel.host == nullptr) {
    const auto host = hostKernels().find(kernel.name);
    if (host != hostKernels().end()) kernel.host = &host->second;
  }
  if (kernel.host == nullptr) {
    // It would have written something; what it leaves out, nobody may take for a result.
    std::fprintf(stderr, "emulated GPU: no host code for the kernel %s\n", kernel.name.c_str());
    return static_cast<CUresult>(cudaErrorNotSupported);
  }
  std::vector<std::vector<char>> values;
  for (std::size_t i = 0; i < kernel.host->sizes.size(); ++i) {
    const char* const value = static_cast<const char*>(arguments[i]);
    values.emplace_back(value, value + kernel.host->sizes[i]);
  }
  const auto accesses = kernelAccesses(kernel.name, arguments);
  std::size_t bytes = 0;
  for (const Access& each : accesses) bytes += each.bytes;
  const auto run = [values = std::move(values), host = kernel.host, grid, block]() mutable {
    std::vector<void*> pointers;
    for (auto& value : values) pointers.push_back(value.data());
    if (!settings().clock) host->run(grid, block, pointers.data());
  };
  return enqueue(stream, {.run = run,
                          .cost = settings().timed() ? kernelTime(bytes) : kLaunch,
                          .engine = Engine::kCompute,
                          .accesses = accesses,
                          .kernel = true,
                          .name = kernel.name.c_str()});
}

}  // namespace emulated_gpu
