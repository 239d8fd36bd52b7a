# Writes OUTPUT, a header with the short hash of SOURCE_DIR's commit, or an empty text where there is no git.
cmake_minimum_required(VERSION 3.25)
set(commit "")
find_program(git git)
if(git AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${git} -c safe.directory=* rev-parse --short=10 HEAD WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "")
  endif()
endif()
file(WRITE ${OUTPUT} "#define TPPLAN_COMMIT \"${commit}\"\n")
