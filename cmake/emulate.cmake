# The CUDA backend without a card, for the tests: libcuda_emulated.so has the driver's functions over host memory and the
# kernel files compiled as C++ (tests/cuda/emulate). WEIR_CUDA_DRIVER=<its path> makes weir use it.
#
# Sets WEIR_EMULATE, and gives
#   cuda_emulated    the library; its path is $<TARGET_FILE:cuda_emulated>
#   emulate_direct   objects with a weak wr_launch, for tests that run a family's rows without the runtime
# Include it after cmake/cuda.cmake and after the target weir_flags; a test in tests/cuda links both.
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

file(GLOB emulated_kernels CONFIGURE_DEPENDS src/cuda/kernels/*.cu)
file(GLOB emulate_sources CONFIGURE_DEPENDS tests/cuda/emulate/*.cpp)
list(APPEND emulated_kernels ${CMAKE_SOURCE_DIR}/tests/cuda/emulate/selftest.cu)
set_source_files_properties(${emulated_kernels} PROPERTIES LANGUAGE CXX)

# Without sanitizers: they do not know of fibers. -O1: a kernel unrolls far, and higher levels take minutes over some.
add_library(emulated_kernels OBJECT ${emulated_kernels})
target_compile_definitions(emulated_kernels PRIVATE WR_EMULATE)
target_compile_options(emulated_kernels PRIVATE -O1 -g1 -Wno-unknown-pragmas -w)
add_library(cuda_emulated SHARED ${emulate_sources} $<TARGET_OBJECTS:emulated_kernels>)
target_compile_options(cuda_emulated PRIVATE -O3 -g -Wall -Wextra -Wshadow $<$<BOOL:${WEIR_WERROR}>:-Werror>)
foreach(target emulated_kernels cuda_emulated)
    target_compile_features(${target} PRIVATE cxx_std_17)
    target_compile_options(${target} PRIVATE -ffp-contract=off)
    target_include_directories(${target} PRIVATE src include tests/cuda/emulate)
    target_include_directories(${target} SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE})
endforeach()
target_link_options(cuda_emulated PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic)
target_link_libraries(cuda_emulated PRIVATE Threads::Threads)

add_library(emulate_direct OBJECT tests/cuda/emulate/launch_direct.c)
target_include_directories(emulate_direct PRIVATE tests)
target_link_libraries(emulate_direct PRIVATE weir_flags)

# The tests of the emulation itself.
if(cmocka_FOUND)
    foreach(name emulate driver)
        set(target test_cuda_emulate_${name})
        add_executable(${target} tests/cuda/emulate/test_${name}.c)
        target_include_directories(${target} PRIVATE tests)
        target_include_directories(${target} SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE})
        target_link_libraries(${target} PRIVATE weir_flags cuda_emulated PkgConfig::cmocka)
        add_test(NAME ${target} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
        note_test(fast ${target} $<TARGET_FILE:${target}>)
    endforeach()
endif()
