# Turns the options of the root file into: tpplan_options (warnings, sanitizers), TPPLAN_WITH_MPI, TPPLAN_CUDA_INCLUDE_DIR.

add_library(tpplan_options INTERFACE)
target_compile_options(tpplan_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${TPPLAN_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tpplan_options INTERFACE -Wno-restrict)  # false on "text" + std::string: GCC bug 105651
endif()
if(TPPLAN_SANITIZE)
  target_compile_options(tpplan_options INTERFACE
    -fsanitize=${TPPLAN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tpplan_options INTERFACE -fsanitize=${TPPLAN_SANITIZE})
endif()

# -O2 in every optimised build: -O3 gains little here, and results must not depend on the machine that built them.
foreach(configuration IN ITEMS RELEASE RELWITHDEBINFO)
  string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_${configuration} "${CMAKE_CXX_FLAGS_${configuration}}")
endforeach()

find_package(nlohmann_json 3.9 REQUIRED)
find_package(Eigen3 3.3 REQUIRED NO_MODULE)
set(Boost_USE_STATIC_LIBS ${TPPLAN_STATIC_BOOST})
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(ZLIB REQUIRED)

set(TPPLAN_WITH_MPI OFF)
if(NOT TPPLAN_BUILD_COMM_BENCH STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  if(TPPLAN_BUILD_COMM_BENCH STREQUAL "AUTO")
    find_package(MPI QUIET COMPONENTS CXX)
  else()
    find_package(MPI REQUIRED COMPONENTS CXX)
  endif()
  set(TPPLAN_WITH_MPI ${MPI_CXX_FOUND})
  if(NOT TPPLAN_WITH_MPI)
    message(STATUS "comm-bench: left out, no MPI found (Debian: libopenmpi-dev)")
  endif()
endif()

set(TPPLAN_CUDA_INCLUDE_DIR "")
if(TPPLAN_WITH_MPI AND NOT TPPLAN_NCCL STREQUAL "OFF")
  set(places ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME} /usr/local/cuda)
  find_path(TPPLAN_CUDA_HEADERS cuda_runtime_api.h HINTS ${places} PATH_SUFFIXES include)
  find_path(TPPLAN_NCCL_HEADERS nccl.h HINTS ${places} PATH_SUFFIXES include)
  find_path(TPPLAN_CUDNN_HEADERS cudnn_graph.h HINTS ${places} $ENV{CUDNN_HOME} PATH_SUFFIXES include)
  mark_as_advanced(TPPLAN_CUDA_HEADERS TPPLAN_NCCL_HEADERS TPPLAN_CUDNN_HEADERS)
  if(TPPLAN_CUDA_HEADERS AND TPPLAN_NCCL_HEADERS)
    set(TPPLAN_CUDA_INCLUDE_DIR ${TPPLAN_CUDA_HEADERS} ${TPPLAN_NCCL_HEADERS})
    if(TPPLAN_CUDNN_HEADERS)
      list(APPEND TPPLAN_CUDA_INCLUDE_DIR ${TPPLAN_CUDNN_HEADERS})
    else()
      message(STATUS "comm-bench: without attention, cudnn_graph.h of cuDNN 9 not found (set CUDNN_HOME)")
    endif()
    list(REMOVE_DUPLICATES TPPLAN_CUDA_INCLUDE_DIR)
    message(STATUS "comm-bench: with NCCL and CUDA, headers in ${TPPLAN_CUDA_INCLUDE_DIR}")
  elseif(TPPLAN_NCCL STREQUAL "AUTO")
    message(STATUS "comm-bench: without NCCL and CUDA, nccl.h or cuda_runtime_api.h not found "
                   "(set CUDA_HOME or -DCUDAToolkit_ROOT=DIR)")
  else()
    message(FATAL_ERROR "TPPLAN_NCCL=ON, but nccl.h or cuda_runtime_api.h was not found; "
                        "set CUDA_HOME or -DCUDAToolkit_ROOT=DIR")
  endif()
endif()
