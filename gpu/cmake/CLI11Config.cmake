include(${CMAKE_CURRENT_LIST_DIR}/packed.cmake)
ebbtide_packed_headers(CLI11::CLI11)
