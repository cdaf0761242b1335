# An allocator whose n-th allocation fails, for the tests of the cores.
add_library(morsel_nth_allocation STATIC ${CMAKE_CURRENT_LIST_DIR}/nth_allocation.c)
target_include_directories(morsel_nth_allocation PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(morsel_nth_allocation PUBLIC morsel_core)
target_link_options(morsel_nth_allocation INTERFACE -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc)
