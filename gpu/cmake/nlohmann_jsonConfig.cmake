include(${CMAKE_CURRENT_LIST_DIR}/packed.cmake)
ebbtide_packed_headers(nlohmann_json::nlohmann_json)
