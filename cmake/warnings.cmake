# One interface target carries the warnings and sanitizers of our own code; headers of others are SYSTEM.
add_library(ebbtide_build_flags INTERFACE)
option(EBBTIDE_WARNINGS_ARE_ERRORS "Off for compilers that warn of more than those we use" ON)
target_compile_options(ebbtide_build_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                                     -Woverloaded-virtual)
if(EBBTIDE_WARNINGS_ARE_ERRORS)
  target_compile_options(ebbtide_build_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports false positives from inlined standard containers (GCC bugs 105329, 105651).
  target_compile_options(ebbtide_build_flags INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
                                                       -Wno-stringop-overread)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # So that ccache knows what is precompiled (with CCACHE_SLOPPINESS, as ./dev sets it).
  target_compile_options(ebbtide_build_flags INTERFACE -fpch-preprocess)
endif()
if(EBBTIDE_SANITIZE)
  target_compile_options(ebbtide_build_flags INTERFACE -fsanitize=${EBBTIDE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ebbtide_build_flags INTERFACE -fsanitize=${EBBTIDE_SANITIZE})
  # Asio's fences, which the thread sanitizer does not see: its locks order the same accesses.
  if(EBBTIDE_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(ebbtide_build_flags INTERFACE -Wno-tsan)
  endif()
endif()
