# Programs, data, and cost-model as a library: find_package(tpplan) gives tpplan::cost_model, pkg-config tpplan the same.
include(CMakePackageConfigHelpers)

foreach(program IN ITEMS tpplan comm-bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME)
  endif()
endforeach()
install(DIRECTORY models clusters DESTINATION ${CMAKE_INSTALL_DATADIR}/tpplan FILES_MATCHING PATTERN *.json PATTERN *.md)

install(TARGETS tpplan_cost_model EXPORT tpplan ARCHIVE FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tpplan)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tpplan)
install(EXPORT tpplan NAMESPACE tpplan:: FILE tpplanConfig.cmake DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tpplanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tpplanConfigVersion.cmake DESTINATION ${package})
file(RELATIVE_PATH TPPLAN_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/tpplan.pc.in ${PROJECT_BINARY_DIR}/tpplan.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tpplan.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
