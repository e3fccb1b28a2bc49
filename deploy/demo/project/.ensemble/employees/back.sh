#!/bin/sh
# Back, a script standing in for a back-end developer's agent. It reads its brief, works in the
# current directory (its own copy of the repository) and writes the result file. The texts that a
# model would think up lie in back/; descriptions and data are made here from what others delivered.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

desk() { python3 "$here/desk.py" "$@"; }
think() { echo "back: $1"; sleep "$2"; }

# Keeps scratch files out of the working copy, which is captured whole.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

design_schema() {
    think "designing the table" 0.6
    mkdir -p app
    cp "$here/back/schema.sql" app/schema.sql
    python3 "$here/back/columns.py" app/schema.sql >"$scratch/schema.json"
    desk report SUCCESS "The table book with its columns; an ISBN is unique." --artifact "schema=$scratch/schema.json"
}

write_api() {
    desk artifact schema schema >"$scratch/schema.json"
    think "writing the API" 0.9
    mkdir -p docs
    cp "$here/back/store.py" "$here/back/api.py" app/
    # The program describes itself, so that the description can't promise what it does not do.
    python3 app/api.py --describe >docs/api.json
    if ! python3 "$here/back/agree.py" "$scratch/schema.json" docs/api.json; then
        desk report FAILED "The API and the table disagree." --blocker "the fields of docs/api.json are not the columns that task schema delivered"
        exit 1
    fi
    desk report SUCCESS "A REST API for books on SQLite, described in docs/api.json." \
        --artifact api_spec=docs/api.json \
        --message "The server prints its address once it listens; with --port 0 it chooses a free port."
}

write_seed() {
    desk artifact schema schema >"$scratch/schema.json"
    think "choosing books" 0.7
    mkdir -p app
    python3 "$here/back/seed.py" "$scratch/schema.json" >app/seed.sql
    python3 "$here/back/columns.py" app/schema.sql app/seed.sql >/dev/null
    desk report SUCCESS "Six books to begin with; loading them twice adds nothing."
}

write_start() {
    think "writing the start script" 0.4
    mkdir -p bin
    cp "$here/back/start.sh" bin/start.sh
    desk report SUCCESS "sh bin/start.sh starts the application on \$PORT (8000)." \
        --message "PORT and DATABASE may be set in the environment."
}

echo "back: brief of $(wc -l | tr -d ' ') lines for task $ENSEMBLE_TASK, attempt $ENSEMBLE_ATTEMPT"
case $ENSEMBLE_TASK in
schema) design_schema ;;
api) write_api ;;
seed) write_seed ;;
start) write_start ;;
*)
    desk report BLOCKED "This script knows the tasks of the demo only." --blocker "unknown task $ENSEMBLE_TASK"
    exit 1
    ;;
esac
