# What `cmake --install` and the Debian packages put where.
#
#   server      morsel-meta, morsel-iod, their units, configuration and man pages
#   benefactor  morsel-benefactor, its units, configuration, completion and man page
#   client      morsel-mount (mount.fuse.morsel), morsel, completion and man pages
#   dev         the C interface for data sets: header, library, pkg-config, man page, example

# ---- Man pages: built with everything else, from the programs' own lists of options.
find_program(SCDOC scdoc REQUIRED)
function(morsel_man_page page component)
  string(REGEX REPLACE "^.*\\." "" section ${page})
  set(out ${CMAKE_BINARY_DIR}/man/${page})
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_SOURCE_DIR}/man/page.sh ${CMAKE_SOURCE_DIR}/man/${page}.scd
            ${MORSEL_BIN_DIR} ${out}
    DEPENDS ${CMAKE_SOURCE_DIR}/man/${page}.scd ${CMAKE_SOURCE_DIR}/man/page.sh ${ARGN}
    VERBATIM)
  set_property(GLOBAL APPEND PROPERTY MORSEL_MAN_PAGES ${out})
  install(FILES ${out} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
endfunction()

set(MORSEL_BIN_DIR ${CMAKE_BINARY_DIR}/bin)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/man)
morsel_man_page(morsel-meta.8 server morsel-meta)
morsel_man_page(morsel-iod.8 server morsel-iod)
morsel_man_page(morsel-benefactor.8 benefactor morsel-benefactor)
morsel_man_page(morsel.1 client morsel)
morsel_man_page(morsel-mount.8 client morsel-mount)
morsel_man_page(morselfs.7 client)
morsel_man_page(morsel.3 dev)
get_property(MORSEL_MAN_PAGES GLOBAL PROPERTY MORSEL_MAN_PAGES)
add_custom_target(man ALL DEPENDS ${MORSEL_MAN_PAGES})

# ---- Programs
install(TARGETS morsel-meta morsel-iod RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR} COMPONENT server)
install(TARGETS morsel-benefactor RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT benefactor)
install(TARGETS morsel morsel-mount RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT client)
install(TARGETS morsel_library ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(FILES src/client/library/morsel.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES examples/dataset.c DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/morselfs-dev/examples COMPONENT dev)
install(FILES packaging/completion/morsel
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT client)
install(FILES packaging/completion/morsel-benefactor
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT benefactor)
foreach(component server benefactor client dev)
  install(FILES LICENSE RENAME copyright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/morselfs-${component} COMPONENT ${component})
endforeach()

# ---- What depends on the prefix that is only known when installing: cpack and --prefix change it.
install(CODE "set(MORSEL_SOURCE \"${CMAKE_SOURCE_DIR}\")\nset(MORSEL_BUILD \"${CMAKE_BINARY_DIR}\")"
        ALL_COMPONENTS)
install(SCRIPT cmake/install_server.cmake COMPONENT server)
install(SCRIPT cmake/install_benefactor.cmake COMPONENT benefactor)
install(SCRIPT cmake/install_client.cmake COMPONENT client)
install(CODE "set(MORSEL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")\nset(MORSEL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")\nset(MORSEL_VERSION \"${PROJECT_VERSION}\")"
        COMPONENT dev)
install(SCRIPT cmake/install_dev.cmake COMPONENT dev)

# ---- Debian packages: cpack -G DEB
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME morselfs)
set(CPACK_PACKAGE_VENDOR "MorselFS")
set(CPACK_PACKAGE_CONTACT "MorselFS maintainers <morselfs@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "parallel file system out of what a lab has")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL server benefactor client dev)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_SERVER_DESCRIPTION
    "metadata manager and I/O daemon of MorselFS
 The manager keeps the names of a parallel file system, the I/O daemons its data.")
set(CPACK_COMPONENT_BENEFACTOR_DESCRIPTION
    "benefactor of MorselFS: donate disk space of a desktop
 Gives a part of the disk to a parallel file system, and gives way before its owner needs it.")
set(CPACK_COMPONENT_CLIENT_DESCRIPTION
    "FUSE client and command line of MorselFS
 Mounts a parallel file system whose files are striped over many I/O daemons.")
set(CPACK_COMPONENT_DEV_DESCRIPTION
    "C interface for data sets of MorselFS
 Header and library for programs that store data sets on benefactors and retrieve them.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME morselfs-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libc6-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "morselfs-client") # A mount.
set(CPACK_DEBIAN_SERVER_PACKAGE_NAME morselfs-server)
set(CPACK_DEBIAN_BENEFACTOR_PACKAGE_NAME morselfs-benefactor)
set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME morselfs-client)
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS "morselfs-client")
set(CPACK_DEBIAN_BENEFACTOR_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_BENEFACTOR_PACKAGE_RECOMMENDS "morselfs-client") # morsel donate
set(CPACK_DEBIAN_CLIENT_PACKAGE_DEPENDS "fuse3")
set(server_control ${CMAKE_SOURCE_DIR}/packaging/debian/server)
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
    "${server_control}/postinst;${server_control}/prerm;${server_control}/postrm;${server_control}/conffiles")
set(benefactor_control ${CMAKE_SOURCE_DIR}/packaging/debian/benefactor)
set(CPACK_DEBIAN_BENEFACTOR_PACKAGE_CONTROL_EXTRA
    "${benefactor_control}/postinst;${benefactor_control}/prerm;${benefactor_control}/postrm;${benefactor_control}/conffiles")
set(CPACK_DEBIAN_CLIENT_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/debian/client/conffiles)
include(CPack)
