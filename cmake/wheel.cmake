# What a wheel holds so that it runs where none of it is installed: archives where the system has them, linked into our
# libraries, else copies of the shared libraries beside them. SKBUILD is set by pyproject.toml's build backend.

# ebbtide_archive(<variable> <library>): the variable is <library>'s archive, or empty.
function(ebbtide_archive variable library)
  set(${variable} "" PARENT_SCOPE)
  if(NOT SKBUILD)
    return()
  endif()
  find_library(EBBTIDE_ARCHIVE_${library} NAMES lib${library}.a)
  if(EBBTIDE_ARCHIVE_${library})
    set(${variable} ${EBBTIDE_ARCHIVE_${library}} PARENT_SCOPE)
  else()
    message(WARNING "lib${library}.a was not found: this wheel needs the shared library where it is installed")
  endif()
endfunction()

# ebbtide_copy_shared(<imported target> ...): into the package, those that are shared libraries.
function(ebbtide_copy_shared)
  foreach(target ${ARGN})
    get_target_property(type ${target} TYPE)
    if(SKBUILD AND type STREQUAL "SHARED_LIBRARY")
      install(FILES $<TARGET_FILE:${target}> RENAME $<TARGET_SONAME_FILE_NAME:${target}> DESTINATION ebbtide)
    endif()
  endforeach()
endfunction()

if(SKBUILD)
  # An archive's symbols stay ours: another copy in the process is not replaced. Debian's libz.a links only so.
  # Without line numbers a wheel is a sixth of the size; the names of functions stay.
  add_link_options(LINKER:--exclude-libs,libz.a LINKER:--strip-debug)
endif()
