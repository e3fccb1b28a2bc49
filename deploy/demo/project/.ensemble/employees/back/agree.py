"""Compares the columns of a delivered schema with the fields of an API description; exit 1 if they differ."""
import json
import pathlib
import sys

schema, spec = (json.loads(pathlib.Path(file).read_text(encoding="utf-8")) for file in sys.argv[1:3])
columns = [(column["name"], column["required"]) for column in schema["columns"] if not column["key"]]
fields = [(field["name"], field["required"]) for field in spec["fields"]]
print(f"columns {columns}\nfields  {fields}")
sys.exit(columns != fields)
