# tpplan_add_library(NAME FOLDER [source...]): a static library tpplan_NAME, alias tpplan::NAME, whose headers are every .h
# below FOLDER (relative to the source root). Target all_verify_interface_header_sets compiles each header by itself.
function(tpplan_add_library name folder)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  if(NOT ARGN)
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp CONTENT "")
    list(APPEND ARGN ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp)
  endif()
  add_library(tpplan_${name} STATIC ${ARGN})
  add_library(tpplan::${name} ALIAS tpplan_${name})
  set_target_properties(tpplan_${name} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  target_sources(tpplan_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
  target_compile_features(tpplan_${name} PUBLIC cxx_std_20)
  target_link_libraries(tpplan_${name} PRIVATE $<BUILD_INTERFACE:tpplan_options>)
endfunction()

# tpplan_define_for_mentions(REGEX TARGET NAME=VALUE...): defines the macros only for the sources of TARGET with a line that
# matches REGEX, so that objects of the rest do not depend on where the tree lies.
function(tpplan_define_for_mentions regex target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    if(source MATCHES "\\.cpp$" AND EXISTS ${source})
      file(STRINGS ${source} mentions REGEX "${regex}" LIMIT_COUNT 1)
      if(mentions)
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS ${ARGN})
      endif()
    endif()
  endforeach()
endfunction()

# Where programs look for models/ and clusters/, and what they say of themselves. TPPLAN_COMMIT is defined only for the
# sources that name it, through a header written again after each commit, so that a commit does not rebuild the rest.
function(tpplan_define_identity target)
  tpplan_define_for_mentions("TPPLAN_" ${target}
    TPPLAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    TPPLAN_DATA_DIR="${CMAKE_INSTALL_FULL_DATADIR}/tpplan"
    TPPLAN_VERSION="${PROJECT_VERSION}"
    TPPLAN_BUILD_TYPE="$<LOWER_CASE:$<CONFIG>>")
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cpp$" AND EXISTS ${source})
      file(STRINGS ${source} mentions REGEX "TPPLAN_COMMIT" LIMIT_COUNT 1)
      if(mentions)
        set(header ${CMAKE_CURRENT_BINARY_DIR}/${target}_commit.h)
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-include;${header}" OBJECT_DEPENDS ${header})
      endif()
    endif()
  endforeach()
  if(header)
    file(GLOB head_log ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)  # grows with each commit and checkout; empty without git
    add_custom_command(OUTPUT ${header} DEPENDS ${head_log}
      COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D OUTPUT=${header}
        -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake
      COMMENT "Recording the commit" VERBATIM)
    target_sources(${target} PRIVATE ${header})
  endif()
endfunction()
