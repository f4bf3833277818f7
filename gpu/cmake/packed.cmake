# Targets over the folders of the pack: this file lies in third_party/cmake.
get_filename_component(EBBTIDE_PACKED ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

function(ebbtide_packed_headers name)
  if(NOT TARGET ${name})
    add_library(${name} INTERFACE IMPORTED)
    set_property(TARGET ${name} PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${EBBTIDE_PACKED}/include)
  endif()
endfunction()

function(ebbtide_packed_library name file)
  if(NOT TARGET ${name})
    add_library(${name} UNKNOWN IMPORTED)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${EBBTIDE_PACKED}/lib/${file}
                                             INTERFACE_INCLUDE_DIRECTORIES ${EBBTIDE_PACKED}/include)
  endif()
endfunction()
