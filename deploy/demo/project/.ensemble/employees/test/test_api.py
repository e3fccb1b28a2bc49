"""The API's promises, tried over HTTP against a server of our own on a free port."""
import http.client
import json
import sys
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "app"))

import api  # noqa: E402  (found only now)

BOOK = {"title": "Solaris", "author": "Stanisław Lem", "year": 1961, "isbn": "978-0-15-602760-1"}


class ApiTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = api.serve(0, str(Path(folder.name, "books.db")))
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def ask(self, method, path, body=None):
        """Status and decoded answer of one request."""
        connection = http.client.HTTPConnection(*self.server.server_address, timeout=5)
        self.addCleanup(connection.close)
        connection.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def add(self, **changes):
        return self.ask("POST", "/api/books", {**BOOK, **changes})

    def test_a_book_comes_back_as_it_was_stored(self):
        status, stored = self.add()
        self.assertEqual(status, 201)
        self.assertEqual(stored, {**BOOK, "id": 1, "copies": 1})
        self.assertEqual(self.ask("GET", "/api/books/1"), (200, stored))

    def test_the_list_is_sorted_and_searched(self):
        self.add(title="Ubik", author="Philip K. Dick", isbn=None)
        self.add()
        self.assertEqual([book["title"] for book in self.ask("GET", "/api/books")[1]], ["Ubik", "Solaris"])
        self.assertEqual([book["title"] for book in self.ask("GET", "/api/books?q=lem")[1]], ["Solaris"])
        self.assertEqual(self.ask("GET", "/api/books?q=%25")[1], [])

    def test_a_change_touches_only_its_fields(self):
        self.add()
        status, changed = self.ask("PATCH", "/api/books/1", {"copies": 3})
        self.assertEqual((status, changed["copies"], changed["title"]), (200, 3, "Solaris"))

    def test_a_deleted_book_is_gone(self):
        self.add()
        self.assertEqual(self.ask("DELETE", "/api/books/1"), (204, None))
        self.assertEqual(self.ask("GET", "/api/books/1")[0], 404)

    def test_an_unknown_id_is_404_for_every_method(self):
        for method, body in [("GET", None), ("PATCH", {"year": 1}), ("PATCH", {}), ("DELETE", None)]:
            for number in ["7", "9999999999999999999"]:
                self.assertEqual(self.ask(method, f"/api/books/{number}", body)[0], 404, (method, number))

    def test_a_bad_book_is_400_and_the_field_is_named(self):
        self.add()
        cases = [
            ({"author": "x"}, "title"),
            ({**BOOK, "colour": "red"}, "colour"),
            ({**BOOK, "isbn": None, "year": "1961"}, "year"),
            ({**BOOK, "isbn": None, "title": ""}, "title"),
            ({**BOOK, "isbn": None, "copies": None}, "copies"),
        ]
        for body, field in cases:
            status, answer = self.ask("POST", "/api/books", body)
            self.assertEqual(status, 400, body)
            self.assertIn(field, answer["error"])
        self.assertEqual(self.ask("PATCH", "/api/books/1", {"copies": -1})[0], 400)
        for body in [b"{", b"[]", b""]:
            self.assertEqual(self.ask("POST", "/api/books", body)[0], 400, body)
        self.assertEqual(len(self.ask("GET", "/api/books")[1]), 1)

    def test_an_isbn_that_is_there_is_409(self):
        self.add()
        self.assertEqual(self.add(title="Another")[0], 409)
        self.add(isbn=None)
        self.assertEqual(self.ask("PATCH", "/api/books/2", {"isbn": BOOK["isbn"]})[0], 409)

    def test_other_addresses_and_methods_are_refused(self):
        self.assertEqual(self.ask("GET", "/api/shelves")[0], 404)
        self.assertEqual(self.ask("GET", "/../app/api.py")[0], 404)
        self.assertEqual(self.ask("DELETE", "/api/books")[0], 405)

    def test_the_description_is_that_of_the_program(self):
        self.assertEqual(json.loads((ROOT / "docs/api.json").read_text(encoding="utf-8")), api.describe())


if __name__ == "__main__":
    unittest.main()
