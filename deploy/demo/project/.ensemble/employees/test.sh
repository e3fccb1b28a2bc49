#!/bin/sh
# Test, a script standing in for a tester's agent. It reads its brief, works in the current
# directory (its own copy of the repository) and writes the result file. A failing request fails
# the task: break app/api.py and see.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

desk() { python3 "$here/desk.py" "$@"; }
think() { echo "test: $1"; sleep "$2"; }

write_tests() {
    think "writing tests from the API's promises" 0.8
    mkdir -p tests
    cp "$here/test/test_api.py" tests/
    if ! python3 -m unittest discover -s tests; then
        desk report FAILED "The API does not keep its promises." --blocker "tests/test_api.py fails on this commit"
        exit 1
    fi
    desk report SUCCESS "Tests for each status code of the API's description; all pass."
}

echo "test: brief of $(wc -l | tr -d ' ') lines for task $ENSEMBLE_TASK, attempt $ENSEMBLE_ATTEMPT"
case $ENSEMBLE_TASK in
tests) write_tests ;;
integration)
    think "starting the application" 0.3
    exec python3 "$here/test/integration.py"
    ;;
*)
    desk report BLOCKED "This script knows the tasks of the demo only." --blocker "unknown task $ENSEMBLE_TASK"
    exit 1
    ;;
esac
