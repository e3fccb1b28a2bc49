#!/bin/sh
# Stands in for an agent until a real one is named in team.yaml: it writes a note into each file that the
# task declares as output. The brief is on standard input and in $ENSEMBLE_PROMPT_FILE.
set -eu

# The same as JSON; outputs are the only thing that is looked for here.
outputs=$(tr -d '\n' <"$ENSEMBLE_CONTEXT_FILE" | sed -n 's/.*"outputs": *\[\([^]]*\)\].*/\1/p' | tr ',' '\n' | tr -d '" ')
for file in ${outputs:-docs/ensemble/$ENSEMBLE_TASK.md}; do
    mkdir -p "$(dirname "$file")"
    {
        echo "# $ENSEMBLE_TASK"
        echo
        echo "A place holder: no agent is named in .ensemble/team.yaml yet. This is what one is told:"
        echo
        sed 's/^/    /' "$ENSEMBLE_PROMPT_FILE"
    } >"$file"
done
echo "Wrote place holders; name a real agent in .ensemble/team.yaml."
