"""What every employee of the demo needs at its desk: reading the context, writing the result.

    desk.py artifact TASK NAME        prints an artifact that TASK delivered, as JSON
    desk.py report STATUS SUMMARY [--artifact NAME=FILE] [--message TEXT] [--blocker TEXT] [--output PATH=FILE]

A real agent needs neither: its brief names everything, and it writes the result file itself.
"""
import argparse
import json
import os
import pathlib
import sys


def context():
    """The task's context as the runtime wrote it beside the brief."""
    return json.loads(pathlib.Path(os.environ["ENSEMBLE_CONTEXT_FILE"]).read_text(encoding="utf-8"))


def artifact(task, name):
    """The artifact `name` that the dependency `task` delivered; ends the program as blocked without it."""
    for dependency in context()["dependencies"]:
        if dependency["task"] == task and name in dependency.get("artifacts", {}):
            return dependency["artifacts"][name]
    blocker = f"task {task} delivered no artifact {name}"
    report("BLOCKED", f"Can't start: {blocker}.", blockers=[blocker])
    sys.exit(f"blocked: {blocker}")


def report(status, summary, artifacts=None, messages=(), blockers=(), outputs=None):
    """Writes the result file."""
    result = {
        "status": status,
        "task_id": os.environ["ENSEMBLE_TASK"],
        "summary": summary,
        "outputs": outputs or {},
        "artifacts": artifacts or {},
        "messages": list(messages),
        "blockers": list(blockers),
    }
    path = pathlib.Path(os.environ["ENSEMBLE_RESULT_FILE"])
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")
    print(f"reported {status}: {summary}")


def pairs(items):
    """`NAME=FILE` arguments as a dictionary of names and the files' texts."""
    split = (item.split("=", 1) for item in items)
    return {name: pathlib.Path(file).read_text(encoding="utf-8") for name, file in split}


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    read = verbs.add_parser("artifact")
    read.add_argument("task")
    read.add_argument("name")
    write = verbs.add_parser("report")
    write.add_argument("status", choices=["SUCCESS", "FAILED", "BLOCKED"])
    write.add_argument("summary")
    for option in ["artifact", "message", "blocker", "output"]:
        write.add_argument(f"--{option}", action="append", default=[])
    given = parser.parse_args()
    if given.verb == "artifact":
        print(json.dumps(artifact(given.task, given.name), indent=1, ensure_ascii=False))
        return
    artifacts = {name: json.loads(text) for name, text in pairs(given.artifact).items()}
    report(given.status, given.summary, artifacts, given.message, given.blocker, pairs(given.output))


if __name__ == "__main__":
    main()
