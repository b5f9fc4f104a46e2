# The CUDA backend without a card, for the tests: the kernel files compiled as C++ over an emulation of a card's threads
# (tests/cuda/emulate).
#
# Sets WEIR_EMULATE, and gives
#   wr_emulate_objects  kernels and emulation, for tests that run a family's rows without the runtime: they link these
#                       objects with LINKER_LANGUAGE CXX, and tests/cuda/emulate/launch_direct.c
#   cuda_emulated       libcuda_emulated.so: the driver's functions over host memory, and all of the above;
#                       WEIR_CUDA_DRIVER=<its path> makes weir use it; with it libnvrtc_fake.so, for WEIR_NVRTC
# Include it after cmake/cuda.cmake, the target weir_flags and the function note_test.
set(WEIR_EMULATE FALSE)
if(NOT WEIR_CUDA OR NOT WEIR_TESTS OR WEIR_FUZZ OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
endif()
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
    message(STATUS "No C++ compiler: the CUDA kernels are not emulated, their tests are left out")
    return()
endif()
enable_language(CXX)
set(WEIR_EMULATE TRUE)
if(WEIR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${WEIR_CCACHE})
endif()

set(emulate ${CMAKE_SOURCE_DIR}/tests/cuda/emulate)
file(GLOB emulated_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cuda/kernels/*.cu)
# -O1: a kernel unrolls far, and higher levels take minutes over some. Their warnings are nvcc's to give.
set_source_files_properties(${emulated_kernels} ${emulate}/selftest.cu PROPERTIES LANGUAGE CXX
    COMPILE_DEFINITIONS WR_EMULATE COMPILE_OPTIONS "-O1;-g1;-w")

# Without sanitizers: they do not know of fibers.
add_library(wr_emulate_objects OBJECT ${emulate}/emulate.cpp ${emulate}/shared.cpp ${emulate}/tensor.cpp
    ${emulated_kernels})
add_library(cuda_emulated SHARED ${emulate}/driver.cpp ${emulate}/driver_run.cpp ${emulate}/selftest.cu
    $<TARGET_OBJECTS:wr_emulate_objects>)
foreach(target wr_emulate_objects cuda_emulated)
    target_compile_features(${target} PRIVATE cxx_std_17)
    target_compile_options(${target} PRIVATE -O2 -g -ffp-contract=off -Wall -Wextra -Wshadow
        $<$<BOOL:${WEIR_WERROR}>:-Werror>)
    target_include_directories(${target} PRIVATE src include ${emulate})
    target_include_directories(${target} SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE})
endforeach()
target_link_options(cuda_emulated PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic)
target_link_libraries(cuda_emulated PRIVATE Threads::Threads)

# libnvrtc_fake.so, beside it: a compiler whose kernels are those of the emulated driver.
add_library(nvrtc_fake SHARED ${emulate}/fake_nvrtc.c)
target_link_libraries(nvrtc_fake PRIVATE weir_flags)
add_dependencies(cuda_emulated nvrtc_fake)

# The tests of the emulation itself.
if(cmocka_FOUND)
    foreach(name emulate driver)
        set(target test_cuda_emulate_${name})
        add_executable(${target} ${emulate}/test_${name}.c)
        target_include_directories(${target} PRIVATE tests)
        target_include_directories(${target} SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE})
        target_link_libraries(${target} PRIVATE weir_flags cuda_emulated PkgConfig::cmocka)
        add_test(NAME ${target} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
        note_test(fast ${target} $<TARGET_FILE:${target}>)
    endforeach()
endif()
