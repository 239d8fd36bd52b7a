# Runs the real program, alone and under mpirun, and compares what it writes.
# cmake -D TPPLAN=tpplan -D LAUNCHER="mpirun;-n" -D FLAGS="--oversubscribe" -D GRIDS=tests/data/sweep -D CASE=ranks -D OUT=folder -P sweep.cmake
cmake_minimum_required(VERSION 3.25)
set(folder ${OUT}/${CASE})
set(grid ${GRIDS}/grid.json)
set(cells 16)
if(CASE MATCHES "killed|death")
  set(grid ${GRIDS}/slow.json)
  set(cells 40)
endif()
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})

# The exit code in `code`, standard output and error in `out` and `err`.
macro(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err TIMEOUT 240)
endmacro()

# `condition` as if() takes it.
function(require condition text)
  set(holds FALSE)
  cmake_language(EVAL CODE "if(${condition})\n  set(holds TRUE)\nendif()")
  if(NOT holds)
    message(FATAL_ERROR "${CASE}: ${text}\nexit code: ${code}\nstdout:\n${out}\nstderr:\n${err}")
  endif()
endfunction()

function(require_same file)
  file(SHA256 ${folder}/alone.jsonl expected)
  file(SHA256 ${folder}/${file} got)
  require("expected STREQUAL got" "${file} differs from the rows of a single process")
  require("NOT EXISTS ${folder}/${file}.journal" "no journal is left behind")
endfunction()

# kill.sh JOURNAL PIDFILE COMMAND...: starts the command, waits until the journal has 11 lines (identity and 10 rows) and
# kills the process whose number the file holds. The exit code is the command's.
file(WRITE ${folder}/kill.sh [=[
journal=$1 pidfile=$2
shift 2
"$@" &
job=$!
[ "$pidfile" = "$0.pid" ] && echo $job > "$pidfile"
for i in $(seq 6000); do
  [ "$(cat "$journal" 2>/dev/null | wc -l)" -ge 11 ] && [ -s "$pidfile" ] && break
  sleep 0.01
done
kill -9 "$(cat "$pidfile")"
wait $job
]=])

run(${TPPLAN} sweep ${grid} --jobs 1 -o ${folder}/alone.jsonl)
require("code EQUAL 0" "a single process sweeps the grid")
require("err MATCHES \"tpplan: sweep: ${cells} cells: [0-9]+ with a plan\"" "the cells are counted")

if(CASE STREQUAL "alone")
  run(${TPPLAN} sweep ${grid} --jobs 3 -o ${folder}/threads.jsonl)
  require("code EQUAL 0" "three threads sweep the grid")
  require_same(threads.jsonl)
  run(${TPPLAN} sweep ${grid})
  file(READ ${folder}/alone.jsonl rows)
  require("out STREQUAL rows" "without -o the rows go to standard output")
  run(${TPPLAN} sweep ${grid} --resume)
  require("code EQUAL 2" "--resume without -o is an error of use")
elseif(CASE STREQUAL "ranks")
  foreach(ranks IN ITEMS 1 2 3)
    run(${LAUNCHER} ${ranks} ${FLAGS} ${TPPLAN} sweep ${grid} --jobs 1 -o ${folder}/ranks${ranks}.jsonl)
    require("code EQUAL 0" "${ranks} ranks sweep the grid")
    require_same(ranks${ranks}.jsonl)
  endforeach()
  run(${LAUNCHER} 2 ${FLAGS} ${TPPLAN} sweep ${folder}/missing.json -o ${folder}/missing.jsonl)
  require("code EQUAL 2" "a grid that is not there is bad input")
  string(REGEX MATCHALL "cannot open [^\n]*missing.json" told "${err}")
  list(LENGTH told times)
  require("times EQUAL 1" "one rank tells of it")
elseif(CASE STREQUAL "killed")
  set(journal ${folder}/killed.jsonl.journal)
  run(sh ${folder}/kill.sh ${journal} ${folder}/kill.sh.pid
    ${TPPLAN} sweep ${grid} --jobs 1 -o ${folder}/killed.jsonl)
  require("code EQUAL 137" "the process was killed")
  require("EXISTS ${journal}" "the journal outlives the process")
  require("NOT EXISTS ${folder}/killed.jsonl" "there is no output before the end")
  run(${TPPLAN} sweep ${grid} -o ${folder}/killed.jsonl)
  require("code EQUAL 2" "a new sweep does not throw away the rows of the old one")
  require("err MATCHES \"--resume goes on with it\"" "and says how to go on")
  file(READ ${grid} text)
  string(REPLACE "[3072," "[1536," text "${text}")
  file(WRITE ${folder}/other.json "${text}")
  run(${TPPLAN} sweep ${folder}/other.json -o ${folder}/killed.jsonl --resume)
  require("code EQUAL 2" "another grid is refused")
  require("err MATCHES \"belongs to another grid\"" "with the reason")
  # A kill in the middle of a line.
  run(truncate -s -20 ${journal})
  run(${TPPLAN} sweep ${grid} --jobs 2 -o ${folder}/killed.jsonl --resume)
  require("code EQUAL 0" "the sweep goes on")
  require("err MATCHES \"sweep: [1-9][0-9]* of ${cells} cells were done before\"" "with the rows it had")
  require_same(killed.jsonl)
elseif(CASE STREQUAL "rank-death")
  set(journal ${folder}/death.jsonl.journal)
  file(WRITE ${folder}/rank.sh "[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && echo $$ > '${folder}/pid'\nexec '${TPPLAN}' \"$@\"\n")
  run(sh ${folder}/kill.sh ${journal} ${folder}/pid
    ${LAUNCHER} 2 ${FLAGS} sh ${folder}/rank.sh sweep ${grid} --jobs 1 -o ${folder}/death.jsonl)
  require("NOT code EQUAL 0" "the job fails")
  require("err MATCHES \"rank 1 .*has ended: it died in the sweep\"" "the dead rank is named")
  require("err MATCHES \"of ${cells} cells are kept in .*the same command with --resume goes on\"" "and how to go on")
  run(${LAUNCHER} 2 ${FLAGS} ${TPPLAN} sweep ${grid} --jobs 1 -o ${folder}/death.jsonl --resume)
  require("code EQUAL 0" "two ranks go on")
  require_same(death.jsonl)
else()
  message(FATAL_ERROR "no such case: ${CASE}")
endif()
message("${CASE}: as expected")
