#!/bin/sh
# Stands in for an agent. It notes its start and its end in a log outside the system and does the
# same work for the same task every time: a file that names the task and what it depends on, which
# must be there. `tasks/TASK.sh` beside the team file, where there is one, replaces that work.
set -eu

note() {
    printf '%s %s %s %s %s %s %s\n' "$1" "$ENSEMBLE_RUN" "$ENSEMBLE_TASK" "$ENSEMBLE_ATTEMPT" \
        "$WHO" "$$" "$(date +%s%N)" >>"$AGENT_LOG"
}

work() {
    mkdir -p work
    {
        echo "$ENSEMBLE_TASK"
        while read -r need; do
            test -f "work/$need.txt" || { echo "work/$need.txt is missing" >&2; exit 9; }
            echo "$need"
        done <"$TEAM/needs/$ENSEMBLE_TASK"
    } >"work/$ENSEMBLE_TASK.txt"
}

note start
trap 'note end' EXIT
test -z "${PACE:-}" || sleep "$PACE"
if test -f "$TEAM/tasks/$ENSEMBLE_TASK.sh"; then
    . "$TEAM/tasks/$ENSEMBLE_TASK.sh"
else
    work
fi
