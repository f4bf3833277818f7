include(${CMAKE_CURRENT_LIST_DIR}/packed.cmake)
ebbtide_packed_headers(Boost::headers)
ebbtide_packed_headers(Boost::boost)
set(Boost_FOUND TRUE)
