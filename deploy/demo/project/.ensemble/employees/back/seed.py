"""Prints seed data as SQL for the columns of a delivered schema."""
import json
import pathlib
import sys

BOOKS = [
    {"title": "The Left Hand of Darkness", "author": "Ursula K. Le Guin", "year": 1969, "isbn": "978-0-441-47812-5"},
    {"title": "Invisible Cities", "author": "Italo Calvino", "year": 1972, "isbn": "978-0-15-645380-6"},
    {"title": "Beloved", "author": "Toni Morrison", "year": 1987, "isbn": "978-0-394-53597-5"},
    {"title": "Things Fall Apart", "author": "Chinua Achebe", "year": 1958, "isbn": "978-0-385-47454-2"},
    {"title": "Ficciones", "author": "Jorge Luis Borges", "year": 1944, "isbn": "978-0-8021-3030-3"},
    {"title": "To the Lighthouse", "author": "Virginia Woolf", "year": 1927, "isbn": "978-0-15-690739-2"},
]


def quoted(value):
    """A value as an SQL literal."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


schema = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
known = [column["name"] for column in schema["columns"]]
print("-- A few books to begin with. Safe to load again: an ISBN that is there is left alone.")
for book in BOOKS:
    names = [name for name in known if name in book]
    values = ", ".join(quoted(book[name]) for name in names)
    print(f"INSERT OR IGNORE INTO {schema['table']} ({', '.join(names)}) VALUES ({values});")
