// A pointer that is no live block: nothing can be saved, and going on would corrupt what lives.
#pragma once

namespace ebbtide::allocator {

[[noreturn]] void dieOfBadFree(const void* pointer, const char* reason) noexcept;

}  // namespace ebbtide::allocator
