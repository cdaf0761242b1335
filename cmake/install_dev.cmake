# What pkg-config says of the C interface: the prefix is in it.
configure_file(${MORSEL_SOURCE}/packaging/morsel.pc.in ${MORSEL_BUILD}/units/morsel.pc @ONLY)
file(INSTALL ${MORSEL_BUILD}/units/morsel.pc DESTINATION ${CMAKE_INSTALL_PREFIX}/${MORSEL_LIBDIR}/pkgconfig)
