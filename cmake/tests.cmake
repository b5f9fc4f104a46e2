# Tests, fuzz targets, examples. What tools/run_tests.py has to run is written
# to tests.tsv in the build folder: kind, name, file.
enable_testing()
set(manifest "")

pkg_check_modules(cmocka IMPORTED_TARGET cmocka)

function(note_test kind name file)
    set(manifest "${manifest}${kind}\t${name}\t${file}\n" PARENT_SCOPE)
endfunction()

include(cmake/emulate.cmake)

# tests/support/*.c is linked into every test; tests/<room>/*.c without the
# prefix test_ into every test of that room.
if(cmocka_FOUND AND NOT WEIR_FUZZ)
    file(GLOB support CONFIGURE_DEPENDS tests/support/*.c)
    foreach(room ${rooms})
        if(room STREQUAL "cuda" AND NOT WEIR_EMULATE)
            continue()
        endif()
        file(GLOB tests CONFIGURE_DEPENDS tests/${room}/test_*.c)
        file(GLOB helpers CONFIGURE_DEPENDS tests/${room}/*.c)
        list(FILTER helpers EXCLUDE REGEX "/test_[^/]*\\.c$")
        foreach(source ${tests})
            get_filename_component(name ${source} NAME_WE)
            string(REGEX REPLACE "^test_" "test_${room}_" target ${name})
            set(kind fast)
            set(links ${links_${room}})
            if(name MATCHES "^test_slow_")
                set(kind slow)
            endif()
            add_executable(${target} ${source} ${helpers} ${support})
            target_include_directories(${target} PRIVATE tests)
            target_compile_definitions(${target} PRIVATE WR_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                WR_BINARY_DIR="${CMAKE_BINARY_DIR}")
            if(room STREQUAL "cuda" AND name MATCHES "^test_device_")
                set(kind device) # through the backend's library, over a driver: the emulated one or a card's
                set(links ${links_cpu})
            elseif(room STREQUAL "cuda")
                target_sources(${target} PRIVATE tests/cuda/emulate/launch_direct.c $<TARGET_OBJECTS:wr_emulate_objects>)
                target_include_directories(${target} SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE})
                set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
            endif()
            target_link_libraries(${target} PRIVATE weir_flags -Wl,--start-group ${links} -Wl,--end-group
                PkgConfig::cmocka)
            add_test(NAME ${target} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
            set_tests_properties(${target} PROPERTIES ENVIRONMENT WEIR_DEVICE=cpu) # what says nothing else
            note_test(${kind} ${target} $<TARGET_FILE:${target}>)
        endforeach()
    endforeach()
endif()

# tests/cuda/device/<name>.c: programs that prove the runtime on a card. The suite runs their quick form over the
# emulated driver, tools/gpu_suite.py the full one on a card.
if(WEIR_CUDA AND NOT WEIR_FUZZ AND NOT sanitize)
    file(GLOB sources CONFIGURE_DEPENDS tests/cuda/device/*.c)
    foreach(source ${sources})
        get_filename_component(name ${source} NAME_WE)
        set(target test_device_${name})
        add_executable(${target} ${source})
        target_include_directories(${target} PRIVATE tests)
        target_include_directories(${target} SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE})
        target_compile_definitions(${target} PRIVATE WR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
        target_link_libraries(${target} PRIVATE weir_flags -Wl,--start-group ${links_serve} -Wl,--end-group
            ${CMAKE_DL_LIBS})
        add_dependencies(${target} weir_cuda)
        if(WEIR_EMULATE)
            add_dependencies(${target} cuda_emulated)
            note_test(device ${target} $<TARGET_FILE:${target}>)
        endif()
    endforeach()
endif()

# fuzz/fuzz_<name>.c: a libFuzzer target, or a program that replays the corpus.
file(GLOB fuzzers CONFIGURE_DEPENDS fuzz/fuzz_*.c)
foreach(source ${fuzzers})
    get_filename_component(target ${source} NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" name ${target})
    if(WEIR_FUZZ)
        add_executable(${target} ${source})
        target_link_options(${target} PRIVATE -fsanitize=fuzzer,address,undefined)
    else()
        set(target fuzz_replay_${name})
        add_executable(${target} ${source} fuzz/replay.c)
        add_test(NAME ${target} COMMAND ${target} fuzz/corpus/${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
        note_test(replay ${target} $<TARGET_FILE:${target}>)
    endif()
    target_compile_definitions(${target} PRIVATE WR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(${target} PRIVATE weir_flags -Wl,--start-group ${links_serve} -Wl,--end-group)
endforeach()

# Examples see only what a user sees: the public headers and the library.
if(NOT WEIR_FUZZ)
    file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
    foreach(source ${examples})
        get_filename_component(name ${source} NAME_WE)
        add_executable(example_${name} ${source})
        target_compile_options(example_${name} PRIVATE -Wall -Wextra $<$<BOOL:${WEIR_WERROR}>:-Werror>)
        target_link_libraries(example_${name} PRIVATE weir_shared m)
        if(sanitize)
            target_link_options(example_${name} PRIVATE -fsanitize=${sanitize})
        endif()
        note_test(example example_${name} $<TARGET_FILE:example_${name}>)
    endforeach()

    # What test scripts run beside the command itself.
    file(GLOB programs CONFIGURE_DEPENDS tests/programs/*.c)
    foreach(source ${programs})
        get_filename_component(target ${source} NAME_WE)
        add_executable(${target} ${source})
        target_link_libraries(${target} PRIVATE weir_flags -Wl,--start-group ${links_serve} -Wl,--end-group)
    endforeach()

    # Measuring programs. bench/bench_cuda_*.c are parts of one; what the tests run is that it runs.
    file(GLOB benches CONFIGURE_DEPENDS bench/bench_*.c)
    file(GLOB bench_cuda_parts CONFIGURE_DEPENDS bench/bench_cuda_*.c)
    list(REMOVE_ITEM benches ${bench_cuda_parts})
    foreach(source ${benches})
        get_filename_component(target ${source} NAME_WE)
        add_executable(${target} ${source})
        target_link_libraries(${target} PRIVATE weir_flags -Wl,--start-group ${links_serve} -Wl,--end-group)
    endforeach()
    target_sources(bench_cuda PRIVATE ${bench_cuda_parts})
endif()

file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/tests.tsv CONTENT "${manifest}")
