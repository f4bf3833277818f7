# ebbtide_embed(<target> <file> <name>): the file's bytes as `extern const std::string_view <name>` of
# namespace ebbtide::metrics (embedded_files.hpp), written anew by the build when the file has changed.
function(ebbtide_embed target file name)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUTPUT=${source} -DNAME=${name}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/write_embedded.cmake
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${CMAKE_CURRENT_SOURCE_DIR}/write_embedded.cmake
    COMMENT "Embedding ${file}" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
