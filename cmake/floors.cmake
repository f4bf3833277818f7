# ebbtide_floors(<variable> <target>): the folders that floors.txt lists beside the CMakeLists.txt which calls it, and a target that
# fails where an include goes against their order. It runs again once a file has changed, come or gone.
# Where floors.txt draws a line to torch, <variable>_with_torch has the folders below it, and <variable> the others.
function(ebbtide_floors variable target)
  set(list ${CMAKE_CURRENT_SOURCE_DIR}/floors.txt)
  set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/include_order.cmake)
  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/${target}.stamp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} folders REGEX "^([0-9]|---)")
  list(TRANSFORM folders REPLACE "^[0-9]+ +([^ ]+).*" "\\1")
  list(FIND folders "--- torch below" line)
  set(with_torch)
  if(line GREATER_EQUAL 0)
    list(SUBLIST folders ${line} -1 with_torch)
    list(POP_FRONT with_torch)
    list(SUBLIST folders 0 ${line} folders)
  endif()
  set(${variable} ${folders} PARENT_SCOPE)
  set(${variable}_with_torch ${with_torch} PARENT_SCOPE)
  ebbtide_sources(files GLOB_RECURSE ${CMAKE_CURRENT_SOURCE_DIR} src/*.[ch]pp src/*.cu src/*.h include/*.hpp)
  # Ninja goes by times: a file that was moved has its old one, and one that is gone has none. The list of them changes.
  list(JOIN files "\n" names)
  file(CONFIGURE OUTPUT ${stamp}.files CONTENT "${names}\n")
  add_custom_command(OUTPUT ${stamp} DEPENDS ${files} ${stamp}.files ${list} ${script}
    COMMAND ${CMAKE_COMMAND} -D COMPONENT=${CMAKE_CURRENT_SOURCE_DIR} -P ${script}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    COMMENT "Which folder includes which: ${list}" VERBATIM)
  add_custom_target(${target} DEPENDS ${stamp})
endfunction()
