# A store in a directory of its own, for the tests of the store.
add_library(morsel_store_fixture STATIC ${CMAKE_CURRENT_LIST_DIR}/store_fixture.c)
target_include_directories(morsel_store_fixture PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(morsel_store_fixture PUBLIC morsel_platform)
