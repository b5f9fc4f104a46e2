# Installation: library, headers, pkg-config file, CMake package, and with the
# command its man page and shell completion.
include(CMakePackageConfigHelpers)

install(TARGETS weir_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${static_library} DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Found by src/array/device.c from libweir.so, from the command, and from programs with libweir.a in them.
if(TARGET weir_cuda)
    install(TARGETS weir_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weir)
endif()
set_source_files_properties(src/array/device.c PROPERTIES COMPILE_DEFINITIONS
    "WR_LIBDIR=\"${CMAKE_INSTALL_LIBDIR}\";WR_INSTALLED=\"${CMAKE_INSTALL_FULL_LIBDIR}/weir\"")
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
    # The manual and the completion come out of the command's own tables.
    if(NOT sanitize AND NOT CMAKE_CROSSCOMPILING)
        foreach(form man bash)
            add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/weir.${form} DEPENDS weir VERBATIM
                COMMAND sh -c "\"$1\" help --format ${form} >weir.${form}" sh $<TARGET_FILE:weir>)
        endforeach()
        add_custom_target(weir_manual ALL DEPENDS weir.man weir.bash)
        install(FILES ${CMAKE_BINARY_DIR}/weir.man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME weir.1)
        install(FILES ${CMAKE_BINARY_DIR}/weir.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            RENAME weir)
    endif()
endif()
