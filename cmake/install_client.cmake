# Configuration of the command line, and the helper that mount(8) looks for in /sbin.
include(${MORSEL_SOURCE}/cmake/install_config.cmake)
morsel_install_config(client.conf)

set(sbin $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/sbin)
file(MAKE_DIRECTORY ${sbin})
file(CREATE_LINK ../bin/morsel-mount ${sbin}/mount.fuse.morsel SYMBOLIC)
message(STATUS "Linking: ${sbin}/mount.fuse.morsel")
