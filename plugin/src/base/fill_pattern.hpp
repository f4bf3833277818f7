// FillPattern: the byte that new memory is filled with before an op writes there. Torch-free.
#pragma once

#include <optional>

namespace ebbtide::plugin {

using FillPattern = std::optional<unsigned char>;  // nothing: memory stays as it is

}  // namespace ebbtide::plugin
