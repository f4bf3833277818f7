#include "device/gpu_presence.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

namespace ebbtide::plugin {
namespace {

// nvidia0 and so on; dxg is where Windows lends its GPUs.
bool isGpu(const std::string& name) {
  if (name == "dxg") return true;
  const std::string prefix = "nvidia";
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool hidden() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && (*visible == '\0' || *visible == '-');
}

}  // namespace

bool gpuVisible(const std::string& devices, const char* driver) {
  if (hidden()) return false;
  std::error_code error;
  bool found = false;
  for (std::filesystem::directory_iterator entry(devices, error), end; !error && entry != end;
       entry.increment(error)) {
    found |= isGpu(entry->path().filename().string());
  }
  if (!found) return false;
  void* library = ::dlopen(driver, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  ::dlclose(library);
  return true;
}

}  // namespace ebbtide::plugin
