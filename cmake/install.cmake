# Installation: library, headers, pkg-config file, CMake package, and with the
# command its man page and shell completion.
include(CMakePackageConfigHelpers)

install(TARGETS weir_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${static_library} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_file(cmake/weir.pc.in weir.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(cmake/weirConfig.cmake.in weirConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weirConfig.cmake ${CMAKE_BINARY_DIR}/weirConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir)

if(TARGET weir)
    install(TARGETS weir RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
