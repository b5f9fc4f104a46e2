# The CUDA backend: the kernel files through nvcc into one image each, embedded into libweir-cuda.so, which libweir
# loads when it is asked for a GPU. Without nvcc it is left out, and weir is for the CPU only.
#
# WEIR_CUDA_ARCHS: which cards to compile for: numbers of 80;86;89;90;100;120;121, or "all"; another number means the
# next lower one of its generation, whose code it runs. `make` takes the card at hand, or 90.

set(WEIR_CUDA_ARCHS "all" CACHE STRING "Compute capabilities to compile for: all, or a list like 80;90")

find_program(WEIR_NVCC nvcc HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
set(WEIR_CUDA FALSE)
# Not in instrumented builds: the kernels take minutes, and what runs on a card or as fibers the sanitizers do not see.
if(WEIR_NVCC AND NOT WEIR_SANITIZE AND NOT WEIR_FUZZ)
    get_filename_component(cuda_root ${WEIR_NVCC} REALPATH)
    get_filename_component(cuda_root ${cuda_root} DIRECTORY)
    find_path(WEIR_CUDA_INCLUDE cuda.h HINTS ${cuda_root}/../include ${cuda_root}/../targets/x86_64-linux/include)
    if(WEIR_CUDA_INCLUDE)
        set(WEIR_CUDA TRUE)
    endif()
endif()
if(NOT WEIR_CUDA)
    message(STATUS "nvcc or cuda.h was not found: no CUDA backend")
    return()
endif()

set(known_archs 80 86 89 90 100 120 121)
set(archs "")
foreach(wanted ${WEIR_CUDA_ARCHS})
    set(found "")
    foreach(arch ${known_archs})
        string(REGEX REPLACE ".$" "" generation "${arch}")
        if(wanted STREQUAL "all" OR (wanted MATCHES "^${generation}[0-9]$" AND NOT arch GREATER wanted))
            list(APPEND found ${arch})
        endif()
    endforeach()
    if(NOT found)
        message(FATAL_ERROR "WEIR_CUDA_ARCHS has \"${wanted}\"; it must be all, or a list of ${known_archs}")
    endif()
    if(NOT wanted STREQUAL "all")
        list(GET found -1 found)
    endif()
    list(APPEND archs ${found})
endforeach()
list(REMOVE_DUPLICATES archs)
set(arch_flags "")
set(arch_names "")
foreach(arch ${archs})
    if(arch EQUAL 90)
        set(arch 90a) # wgmma and bulk copies exist only there
    endif()
    list(APPEND arch_flags -gencode arch=compute_${arch},code=sm_${arch})
    string(APPEND arch_names " sm_${arch}")
endforeach()
string(STRIP "${arch_names}" arch_names)

# One image a kernel file. -fmad=false: as on the CPU, a fused multiply-add stands only where one is written.
file(GLOB kernel_files CONFIGURE_DEPENDS src/cuda/kernels/*.cu)
file(GLOB kernel_headers CONFIGURE_DEPENDS src/cuda/kernels/*.h src/cuda/kernels/*.cuh)
list(APPEND kernel_headers ${CMAKE_SOURCE_DIR}/src/array/ops.def ${CMAKE_SOURCE_DIR}/include/weir/dtype.h)
set(images "")
set(assembly "    .section .rodata\n")
set(list_of_images "")
foreach(kernel_file ${kernel_files})
    get_filename_component(name ${kernel_file} NAME_WE)
    set(image ${CMAKE_BINARY_DIR}/kernels/${name}.fatbin)
    add_custom_command(OUTPUT ${image}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/kernels
        COMMAND ${WEIR_NVCC} -std=c++17 -O3 -fmad=false -Werror all-warnings -I${CMAKE_SOURCE_DIR}/src
            -I${CMAKE_SOURCE_DIR}/include ${arch_flags} -fatbin -o ${image} ${kernel_file}
        DEPENDS ${kernel_file} ${kernel_headers} VERBATIM COMMENT "Compiling ${name}.cu for ${arch_names}")
    list(APPEND images ${image})
    string(APPEND assembly "    .balign 64\nwr_image_${name}:\n    .incbin \"${image}\"\n")
    string(APPEND list_of_images "    .quad wr_image_${name}\n")
endforeach()
list(LENGTH images n_images)
string(APPEND assembly "    .section .data.rel.ro,\"aw\"\n    .balign 8\n    .globl wr_cuda_images\nwr_cuda_images:\n"
    "${list_of_images}    .section .rodata\n    .balign 4\n    .globl wr_cuda_n_images\nwr_cuda_n_images:\n"
    "    .long ${n_images}\n    .globl wr_cuda_architectures\nwr_cuda_architectures:\n"
    "    .asciz \"${arch_names}\"\n    .section .note.GNU-stack,\"\",@progbits\n")
set(images_source ${CMAKE_BINARY_DIR}/kernels/images.S)
file(GENERATE OUTPUT ${images_source} CONTENT "${assembly}")
add_custom_target(weir_kernels DEPENDS ${images})
