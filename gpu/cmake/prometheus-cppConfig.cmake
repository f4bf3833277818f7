include(${CMAKE_CURRENT_LIST_DIR}/packed.cmake)
ebbtide_packed_library(prometheus-cpp::core libprometheus-cpp-core.so.1.0)
