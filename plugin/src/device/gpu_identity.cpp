#include "device/gpu_identity.hpp"

#include <fmt/format.h>

namespace ebbtide::plugin {

std::string uuidText(const char (&bytes)[16]) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

}  // namespace ebbtide::plugin
