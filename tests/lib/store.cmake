# A store in a directory of its own, for the tests of the store.
add_library(morsel_store_fixture STATIC ${CMAKE_CURRENT_LIST_DIR}/store_fixture.c)
target_include_directories(morsel_store_fixture PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(morsel_store_fixture PUBLIC morsel_platform)

# The same on a disk that can be made to fail; the test's own link options name the calls.
add_library(morsel_faulty_disk STATIC ${CMAKE_CURRENT_LIST_DIR}/faulty_disk.c)
target_link_libraries(morsel_faulty_disk PUBLIC morsel_store_fixture)

# Sectors of files that the disk has lost.
add_library(morsel_bad_sectors STATIC ${CMAKE_CURRENT_LIST_DIR}/bad_sectors.c)
target_include_directories(morsel_bad_sectors PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(morsel_bad_sectors PUBLIC morsel_platform)
target_link_options(morsel_bad_sectors INTERFACE -Wl,--wrap=preadv2 -Wl,--wrap=pread -Wl,--wrap=pwritev
                    -Wl,--wrap=fallocate)
