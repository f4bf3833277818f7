// Loaded before torch, for the whole process: what torch says of itself, as a later one would.
#include <string>

namespace at {

__attribute__((visibility("default"))) std::string show_config() {
  return "PyTorch built with:\n  - Build settings: TORCH_VERSION=" OTHER_TORCH ", ";
}

}  // namespace at
