# Configuration that people edit. The programs look in /etc/morselfs, so that is where it goes unless somebody installs
# into a directory of his own. What is there stays as it is (dpkg has its own rules for that).
if(CMAKE_INSTALL_PREFIX MATCHES "^/usr(/local)?/?$")
  set(MORSEL_ETC /etc/morselfs)
else()
  set(MORSEL_ETC ${CMAKE_INSTALL_PREFIX}/etc/morselfs)
endif()

function(morsel_install_config name)
  if("$ENV{DESTDIR}" STREQUAL "" AND EXISTS ${MORSEL_ETC}/${name})
    message(STATUS "Keeping: ${MORSEL_ETC}/${name}")
    return()
  endif()
  file(INSTALL ${MORSEL_SOURCE}/packaging/config/${name} DESTINATION ${MORSEL_ETC})
endfunction()
