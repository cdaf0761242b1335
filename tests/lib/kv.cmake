# For tests of the manager: a store that forgets, and a namespace on it. May be included more than once.
if(NOT TARGET morsel_ns_fixture)
  add_library(morsel_ns_fixture STATIC ${CMAKE_CURRENT_LIST_DIR}/kv_forgetful.c
              ${CMAKE_CURRENT_LIST_DIR}/ns_fixture.c)
  target_include_directories(morsel_ns_fixture PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(morsel_ns_fixture PUBLIC morsel_core)
endif()
