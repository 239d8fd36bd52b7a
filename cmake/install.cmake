# Programs, data, and cost-model as a library: find_package(tpplan) gives tpplan::cost_model, pkg-config tpplan the same.
include(CMakePackageConfigHelpers)

foreach(program IN ITEMS tpplan comm-bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME)
  endif()
endforeach()
if(TARGET tpplan)
  # The program writes its own manual page and completion scripts, so that they cannot differ from --help.
  set(made ${PROJECT_BINARY_DIR}/made-by-tpplan)
  install(CODE "
    file(MAKE_DIRECTORY ${made})
    foreach(job IN ITEMS help:--man:tpplan.1 completion:bash:tpplan completion:zsh:_tpplan completion:fish:tpplan.fish)
      string(REPLACE : \";\" job \"\${job}\")
      list(POP_BACK job file)
      execute_process(COMMAND ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tpplan \${job} OUTPUT_FILE ${made}/\${file}
                      COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
  install(FILES ${made}/tpplan.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${made}/tpplan DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${made}/_tpplan DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${made}/tpplan.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(DIRECTORY models clusters DESTINATION ${CMAKE_INSTALL_DATADIR}/tpplan FILES_MATCHING PATTERN *.json PATTERN *.md)

install(TARGETS tpplan_cost_model EXPORT tpplan ARCHIVE FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tpplan)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tpplan)
install(EXPORT tpplan NAMESPACE tpplan:: FILE tpplanConfig.cmake DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tpplanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tpplanConfigVersion.cmake DESTINATION ${package})
file(RELATIVE_PATH TPPLAN_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/tpplan.pc.in ${PROJECT_BINARY_DIR}/tpplan.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tpplan.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
