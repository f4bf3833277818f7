# torch as plain import flags: find_package(Torch) takes seconds, wants a CUDA toolkit and picks architectures.
set(EBBTIDE_TORCH_ROOT "" CACHE PATH "Folder of the torch package (has include/ and lib/)")
if(NOT EBBTIDE_TORCH_ROOT)
  find_program(EBBTIDE_PYTHON NAMES python3 python PATHS ${PROJECT_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
  find_program(EBBTIDE_PYTHON NAMES python3 python)
  execute_process(COMMAND ${EBBTIDE_PYTHON} -E -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(EBBTIDE_TORCH_ROOT "${found}" CACHE PATH "Folder of the torch package (has include/ and lib/)" FORCE)
endif()
if(NOT EXISTS ${EBBTIDE_TORCH_ROOT}/include/ATen/ATen.h)
  message(FATAL_ERROR "no torch headers in '${EBBTIDE_TORCH_ROOT}': install torch, or set EBBTIDE_TORCH_ROOT")
endif()
file(READ ${EBBTIDE_TORCH_ROOT}/version.py version_text)
string(REGEX MATCH "__version__ = '([0-9]+\\.[0-9]+)" _ "${version_text}")
set(EBBTIDE_TORCH_MINOR ${CMAKE_MATCH_1})
message(STATUS "torch ${EBBTIDE_TORCH_MINOR} in ${EBBTIDE_TORCH_ROOT}")

add_library(ebbtide_torch_libraries INTERFACE)
target_include_directories(ebbtide_torch_libraries SYSTEM INTERFACE
  ${EBBTIDE_TORCH_ROOT}/include ${EBBTIDE_TORCH_ROOT}/include/torch/csrc/api/include)
target_link_libraries(ebbtide_torch_libraries INTERFACE
  ${EBBTIDE_TORCH_ROOT}/lib/libtorch_cpu.so ${EBBTIDE_TORCH_ROOT}/lib/libc10.so)
# torch is built with it; without, RecordFunction::inputs() asserts.
target_compile_definitions(ebbtide_torch_libraries INTERFACE NDEBUG)
