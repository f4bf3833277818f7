// The folder of the library that this is compiled into: its companions lie beside it.
#pragma once

#include <dlfcn.h>

#include <string>

namespace ebbtide::plugin {

inline std::string ownFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&ownFolder), &info) == 0 || info.dli_fname == nullptr) {
    return ".";
  }
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace ebbtide::plugin
