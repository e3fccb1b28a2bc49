#!/bin/sh
# The schema loads, and loads again over itself.
set -eu
exec python3 -c '
import sqlite3, pathlib
db = sqlite3.connect(":memory:")
script = pathlib.Path("app/schema.sql").read_text()
db.executescript(script)
db.executescript(script)
columns = [row[1] for row in db.execute("PRAGMA table_info(book)")]
assert {"id", "title", "author", "isbn"} <= set(columns), f"columns missing, found {columns}"
print("table book:", ", ".join(columns))
'
