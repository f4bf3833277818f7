// Variables of the environment. The EBBTIDE_* names are for the torch-free loader and the
// configuration alike.
#pragma once

#include <string>
#include <vector>

namespace ebbtide::plugin {

// The value, or "" where it is unset.
std::string variable(const char* name);

// Names of all EBBTIDE_* variables that there are.
std::vector<std::string> knownVariables();

// Whether the environment switches Ebbtide on. Whatever cannot be what the user meant does, too
// (EBBTIDE=true, EBBTIDE_BUDGTE=30GiB), so that the configuration refuses it aloud.
bool askedFor();

// One sentence that names an unknown EBBTIDE_* variable and the nearest known one; "" if none is
// set.
std::string unknownVariable();

// Of PYTORCH_ALLOC_CONF, the names of settings that our allocator for GPUs leaves without effect:
// how torch's cuts and keeps its blocks. In their order there.
std::vector<std::string> idleAllocatorSettings(const std::string& text);

}  // namespace ebbtide::plugin
