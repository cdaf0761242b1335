# Configuration and systemd units of the benefactor: one of the machine, and one of each user.
include(${MORSEL_SOURCE}/cmake/install_config.cmake)
morsel_install_config(benefactor.conf)

set(BINDIR ${CMAKE_INSTALL_PREFIX}/bin)
set(units ${CMAKE_INSTALL_PREFIX}/lib/systemd)
configure_file(${MORSEL_SOURCE}/packaging/systemd/morsel-benefactor.service.in
               ${MORSEL_BUILD}/units/system/morsel-benefactor.service @ONLY)
configure_file(${MORSEL_SOURCE}/packaging/systemd/morsel-benefactor-user.service.in
               ${MORSEL_BUILD}/units/user/morsel-benefactor.service @ONLY)
file(INSTALL ${MORSEL_BUILD}/units/system/morsel-benefactor.service DESTINATION ${units}/system)
file(INSTALL ${MORSEL_BUILD}/units/user/morsel-benefactor.service DESTINATION ${units}/user)
