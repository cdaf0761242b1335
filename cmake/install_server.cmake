# Configuration and systemd units of the daemons; the units name the programs by their installed path.
include(${MORSEL_SOURCE}/cmake/install_config.cmake)
morsel_install_config(meta.conf)
morsel_install_config(iod.conf)

set(SBINDIR ${CMAKE_INSTALL_PREFIX}/sbin)
foreach(unit morsel-meta.service morsel-iod.service morsel-iod@.service)
  configure_file(${MORSEL_SOURCE}/packaging/systemd/${unit}.in ${MORSEL_BUILD}/units/${unit} @ONLY)
  file(INSTALL ${MORSEL_BUILD}/units/${unit} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
endforeach()
