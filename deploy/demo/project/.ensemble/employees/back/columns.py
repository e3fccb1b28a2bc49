"""Loads SQL files into an empty database and prints the table `book` as JSON, as SQLite sees it."""
import json
import pathlib
import sqlite3
import sys

database = sqlite3.connect(":memory:")
for file in sys.argv[1:]:
    database.executescript(pathlib.Path(file).read_text(encoding="utf-8"))
columns = [
    {"name": name, "type": kind, "required": bool(required) and default is None, "key": bool(key)}
    for _, name, kind, required, default, key in database.execute("PRAGMA table_info(book)")
]
print(json.dumps({"table": "book", "columns": columns}))
