# Reading the standard library's headers is half of what our sources cost to compile: with this it is read once a target.
# Each source includes what it uses all the same; the preset tsan compiles them without.
function(ebbtide_precompile target)  # ebbtide_precompile(<target> [<header> ...])
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <bit> <charconv> <chrono> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory>
    <numeric> <optional> <queue> <random> <set> <stdexcept> <string> <string_view> <tuple> <unordered_map> <utility>
    <variant> <vector> ${ARGN})
endfunction()

# The targets take what the first has precompiled, whichever was made first: they have the same flags.
function(ebbtide_share_precompiled first)  # ebbtide_share_precompiled(<first> [<target> ...])
  list(REMOVE_ITEM ARGN ${first})
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM ${first})
  endforeach()
endfunction()
