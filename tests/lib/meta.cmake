# A manager in the process of the test.
add_library(morsel_meta_fixture STATIC ${CMAKE_CURRENT_LIST_DIR}/meta_fixture.c)
target_include_directories(morsel_meta_fixture PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(morsel_meta_fixture PUBLIC morsel_meta)
