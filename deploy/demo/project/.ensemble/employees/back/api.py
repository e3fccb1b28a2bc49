"""The book-management server: a JSON API under /api/books, and the page in web/.

    python3 app/api.py [--port N] [--database FILE] [--seed FILE]
    python3 app/api.py --describe       prints the description of the API, made from the table of routes below
"""
import argparse
import json
import re
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from store import Invalid, Store, Taken

WEB = Path(__file__).resolve().parent.parent / "web"
PAGES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
}
BODY_LIMIT = 64 * 1024
LARGEST_ID = 2**63 - 1

ROUTES = [
    {"name": "list", "method": "GET", "path": "/api/books", "query": ["q"], "answers": [200]},
    {"name": "create", "method": "POST", "path": "/api/books", "body": True, "answers": [201, 400, 409]},
    {"name": "read", "method": "GET", "path": "/api/books/{id}", "answers": [200, 404]},
    {"name": "update", "method": "PATCH", "path": "/api/books/{id}", "body": True, "answers": [200, 400, 404, 409]},
    {"name": "delete", "method": "DELETE", "path": "/api/books/{id}", "answers": [204, 404]},
]


def match(method, path):
    """The route for a request and the id in its path; (None, known) if no route has this method."""
    known = False
    for route in ROUTES:
        found = re.fullmatch(route["path"].replace("{id}", "([0-9]{1,19})"), path)
        if found and route["method"] == method:
            return route, int(found.group(1)) if found.groups() else None
        known = known or bool(found)
    return None, known


class Handler(BaseHTTPRequestHandler):
    """One request. The store is an attribute of the server."""

    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_GET(self):
        self._serve()

    def do_POST(self):
        self._serve()

    def do_PATCH(self):
        self._serve()

    def do_DELETE(self):
        self._serve()

    def _serve(self):
        address = urlsplit(self.path)
        if self.command == "GET" and address.path in PAGES:
            return self._page(*PAGES[address.path])
        route, rest = match(self.command, address.path)
        if route is None:
            return self._error(405 if rest else 404, "no such method here" if rest else "no such address")
        try:
            body = self._body() if route.get("body") else None
            status, answer = getattr(self, "_" + route["name"])(rest, body, parse_qs(address.query))
        except Invalid as error:
            return self._error(400, str(error))
        except Taken as error:
            return self._error(409, str(error))
        if status == 404:
            return self._error(404, f"no book {rest}")
        return self._answer(status, answer)

    def _list(self, _number, _body, query):
        return 200, self.server.store.list(query.get("q", [""])[0])

    def _create(self, _number, body, _query):
        return 201, self.server.store.create(body)

    def _read(self, number, _body, _query):
        return self._found(number <= LARGEST_ID and self.server.store.read(number))

    def _update(self, number, body, _query):
        return self._found(number <= LARGEST_ID and self.server.store.update(number, body))

    def _delete(self, number, _body, _query):
        return (204 if number <= LARGEST_ID and self.server.store.delete(number) else 404), None

    @staticmethod
    def _found(book):
        return (200, book) if book else (404, None)

    def _body(self):
        """The request's JSON object."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_LIMIT:
            self.close_connection = True
            raise Invalid(f"the body needs a length of at most {BODY_LIMIT} bytes")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise Invalid("the body is not JSON") from error
        if not isinstance(body, dict):
            raise Invalid("the body is not a JSON object")
        return body

    def _page(self, name, kind):
        file = WEB / name
        if not file.is_file():
            return self._error(404, f"{name} is not there yet")
        return self._send(200, file.read_bytes(), kind)

    def _error(self, status, text):
        # What was not read of a refused request must not be taken for the next one.
        self.close_connection = True
        self._answer(status, {"error": text})

    def _answer(self, status, value):
        text = b"" if value is None else json.dumps(value, ensure_ascii=False).encode()
        self._send(status, text, "application/json; charset=utf-8")

    def _send(self, status, content, kind):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *values):
        """Quiet: the tester reads the address from the first line of output."""


def serve(port, database, seed=None):
    """A server that is bound, but not yet serving."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.store = Store(database, seed)
    return server


def describe():
    """The description of the API: routes from the table above, fields from the database."""
    with tempfile.TemporaryDirectory() as folder:
        fields = Store(Path(folder, "empty.db")).fields
    return {"title": "Books", "routes": ROUTES, "fields": fields}


def main():
    parser = argparse.ArgumentParser(description="Book management")
    parser.add_argument("--port", type=int, default=8000, help="0 chooses a free one")
    parser.add_argument("--database", default="books.db")
    parser.add_argument("--seed", help="SQL to fill an empty database with")
    parser.add_argument("--describe", action="store_true")
    given = parser.parse_args()
    if given.describe:
        print(json.dumps(describe(), indent=2))
        return
    server = serve(given.port, given.database, given.seed)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
