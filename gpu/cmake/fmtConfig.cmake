include(${CMAKE_CURRENT_LIST_DIR}/packed.cmake)
ebbtide_packed_headers(fmt::fmt)
set_property(TARGET fmt::fmt PROPERTY INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY)
