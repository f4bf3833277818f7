// libebbtide.so: the torch-free front. It loads in any process, says when the process has another
// torch, and only then loads the library that includes torch from its own folder.
//
//   Python: the package calls ebbtide_start() at the end of `import torch`.
//   C++:    LD_PRELOAD, or linking: the constructor below does.
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "base/own_folder.hpp"
#include "base/said_line.hpp"
#include "base/variables.hpp"
#include "version.hpp"

#define EBBTIDE_API extern "C" __attribute__((visibility("default")))

using ebbtide::plugin::ownFolder;
using ebbtide::plugin::sayLine;

EBBTIDE_API const char* ebbtide_built_for() {
  return ebbtide::plugin::kBuiltForTorch;
}
EBBTIDE_API const char* ebbtide_version() {
  return ebbtide::plugin::kVersion;
}

EBBTIDE_API bool ebbtide_asked_for() {
  return ebbtide::plugin::askedFor();
}

// nullptr on success or when already started, else one sentence.
EBBTIDE_API const char* ebbtide_start() {
  static std::string message;
  static bool started = false;
  if (started) return nullptr;
  if (void* other =
          dlsym(RTLD_DEFAULT, "ebbtide_torch_start")) {  // two copies would count every byte twice
    Dl_info info{};
    dladdr(other, &info);
    const std::string first = info.dli_fname != nullptr ? info.dli_fname : "elsewhere";
    sayLine("ebbtide: already loaded from " + first + "; the copy in " + ownFolder() +
            " stays out [EB71]");
    return nullptr;
  }
  const std::string path = ownFolder() + "/libebbtide_torch.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    message = std::string("the library for torch ") + ebbtide::plugin::kBuiltForTorch +
              " does not load here: " + dlerror();
    return message.c_str();
  }
  using Start = const char* (*)();
  auto start = reinterpret_cast<Start>(dlsym(library, "ebbtide_torch_start"));
  started = true;
  return start != nullptr ? start() : "libebbtide_torch.so is damaged: it has no entry";
}

// Ends the thread's last step and writes the report. Python calls it at exit: a process that dies
// of its SIGINT runs no other exit handler. Calling it again does nothing.
EBBTIDE_API void ebbtide_finish() {
  using Finish = void (*)();
  if (auto finish = reinterpret_cast<Finish>(dlsym(RTLD_DEFAULT, "ebbtide_torch_finish"))) finish();
}

namespace {

// In a Python process the package starts us, after torch has set its own engine.
__attribute__((constructor)) void startInCppProcess() {
  if (!ebbtide::plugin::askedFor() || dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr) return;
  // A process without torch (a shell under the same LD_PRELOAD) is left alone.
  if (dlsym(RTLD_DEFAULT, "_ZN2at11show_configB5cxx11Ev") == nullptr) return;
  if (const char* problem = ebbtide_start()) {
    sayLine(std::string("ebbtide: ") + problem);
    std::_Exit(2);
  }
}

}  // namespace
