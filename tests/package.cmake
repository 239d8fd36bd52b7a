# Installs the build into a scratch prefix and uses it from there: the programs start, the manual page is there, and a
# project outside of the tree links the library through its CMake package.
# Run: cmake -D SOURCE_DIR=. -D BUILD_DIR=build/dev -D OUT=scratch -D COMPILER=g++ -D DATADIR=share -D MANDIR=share/man -P ...
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${OUT})
set(prefix ${OUT}/prefix)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${prefix}/bin/tpplan --version COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${prefix}/${MANDIR}/man1/tpplan.1 size)
if(size LESS 1000)
  message(FATAL_ERROR "the manual page has ${size} bytes")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/package -B ${OUT}/consumer -DCMAKE_BUILD_TYPE=Debug
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${prefix} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${OUT}/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${OUT}/consumer/consumer ${prefix}/${DATADIR}/tpplan COMMAND_ERROR_IS_FATAL ANY)
