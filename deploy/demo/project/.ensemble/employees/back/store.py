"""Books in SQLite: the only module that knows SQL. One connection a call, so threads don't share any."""
import sqlite3
from contextlib import closing
from pathlib import Path

SCHEMA = Path(__file__).with_name("schema.sql")
PYTHON_TYPES = {"TEXT": str, "INTEGER": int}


class Invalid(ValueError):
    """A book that breaks a rule; the message names the field."""


class Taken(ValueError):
    """A book whose ISBN another one has."""


class Store:
    """The table of books in one database file."""

    def __init__(self, path, seed=None):
        self.path = path
        with closing(self._connect()) as db:
            db.executescript(SCHEMA.read_text(encoding="utf-8"))
            if seed is not None and not db.execute("SELECT 1 FROM book").fetchone():
                db.executescript(Path(seed).read_text(encoding="utf-8"))
            columns = db.execute("PRAGMA table_info(book)").fetchall()
        self.fields = [
            {
                "name": column["name"],
                "type": "number" if column["type"] == "INTEGER" else "text",
                "required": bool(column["notnull"]) and column["dflt_value"] is None,
                "nullable": not column["notnull"],
            }
            for column in columns
            if not column["pk"]
        ]
        self._types = {column["name"]: PYTHON_TYPES[column["type"]] for column in columns if not column["pk"]}
        self._never_null = {column["name"] for column in columns if column["notnull"]}

    def list(self, search=""):
        """All books by author and title; with `search`, those whose title or author holds it."""
        pattern = "%" + search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        query = "SELECT * FROM book WHERE title LIKE ?1 ESCAPE '\\' OR author LIKE ?1 ESCAPE '\\' ORDER BY author, title, id"
        with closing(self._connect()) as db:
            return [dict(row) for row in db.execute(query, (pattern,))]

    def read(self, number):
        """One book, or None."""
        with closing(self._connect()) as db:
            row = db.execute("SELECT * FROM book WHERE id = ?", (number,)).fetchone()
            return dict(row) if row else None

    def create(self, book):
        """Stores a book and gives it back with its id."""
        self._check(book)
        for field in self.fields:
            if field["required"] and field["name"] not in book:
                raise Invalid(f"{field['name']} is missing")
        names = list(book)
        marks = ", ".join("?" for _ in names)
        number = self._write(f"INSERT INTO book ({', '.join(names)}) VALUES ({marks})", list(book.values())).lastrowid
        return self.read(number)

    def update(self, number, changes):
        """Changes some fields of a book and gives it back; None if there is no such book."""
        self._check(changes)
        if changes:
            names = ", ".join(f"{name} = ?" for name in changes)
            self._write(f"UPDATE book SET {names} WHERE id = ?", [*changes.values(), number])
        return self.read(number)

    def delete(self, number):
        """Removes a book; False if there is none."""
        return self._write("DELETE FROM book WHERE id = ?", [number]).rowcount == 1

    def _check(self, book):
        """Names and types, before anything of it comes near a statement."""
        for name, value in book.items():
            if name not in self._types:
                raise Invalid(f"{name} is not a field of a book")
            if value is None and name in self._never_null:
                raise Invalid(f"{name} can't be empty")
            if value is not None and (type(value) is not self._types[name]):
                raise Invalid(f"{name} has the wrong type")

    def _write(self, statement, values):
        with closing(self._connect()) as db, db:
            try:
                return db.execute(statement, values)
            except (OverflowError, UnicodeEncodeError) as error:
                raise Invalid("a value can't be stored") from error
            except sqlite3.IntegrityError as error:
                if "UNIQUE" in str(error):
                    raise Taken("this isbn is already there") from error
                raise Invalid(str(error)) from error

    def _connect(self):
        db = sqlite3.connect(self.path, timeout=5)
        db.row_factory = sqlite3.Row
        return db
