"""Starts the application as a user would, sends real requests along the API's description, writes the report.

The report holds no times or ports, so that the same application always gives the same report.
"""
import json
import os
import pathlib
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import desk  # noqa: E402  (found only now)

START_LIMIT = 15
REQUEST_LIMIT = 5
BOOK = {"title": "Kindred", "author": "Octavia E. Butler", "year": 1979, "isbn": "978-0-8070-8369-7"}


def free_port():
    """The first free port of our range; 0, any free one, where no range was given."""
    first, _, last = os.environ.get("ENSEMBLE_PORTS", "").partition("-")
    if not first:
        return 0
    for port in range(int(first), int(last or first) + 1):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError(f"no free port in {os.environ['ENSEMBLE_PORTS']}")


class Application:
    """The running application; its address is known once it listens."""

    def __init__(self, folder):
        environment = {**os.environ, "PORT": str(free_port()), "DATABASE": str(pathlib.Path(folder, "books.db"))}
        self.process = subprocess.Popen(
            ["sh", "bin/start.sh"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        lines = queue.Queue()
        threading.Thread(target=lambda: lines.put(self.process.stdout.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=START_LIMIT)
        except queue.Empty:
            line = "nothing"
        if "http://" not in line:
            self.stop()
            raise RuntimeError(f"the application did not start: it said {line.strip()!r} instead of its address")
        self.address = line.split()[-1]

    def stop(self):
        """Ends the server and waits for it."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, method, path, body=None):
        """Status and text of one request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_LIMIT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return f"no answer ({error})", ""


class Report:
    """What was asked, expected and answered."""

    def __init__(self, application, spec):
        self.application = application
        self.routes = {route["name"]: route for route in spec["routes"]}
        self.called = set()
        self.rows = []

    def call(self, route, expected, why, number=None, body=None, kind=dict):
        """Calls a route of the description; gives back the decoded answer, an empty `kind` if it is another."""
        self.called.add(route)
        path = self.routes[route]["path"].replace("{id}", str(number))
        status, text = self.application.ask(self.routes[route]["method"], path, body)
        self.note(f"{self.routes[route]['method']} {path}", why, expected, status)
        try:
            answer = json.loads(text) if text else kind()
        except ValueError:
            answer = None
        if not isinstance(answer, kind):
            self.note(f"{self.routes[route]['method']} {path}", f"{why}: kind of answer", f"JSON {kind.__name__}", "something else")
            return kind()
        return answer

    def fetch(self, path, expected_text, why):
        """Fetches a page and looks for a text in it."""
        status, text = self.application.ask("GET", path)
        found = "with" if expected_text in text else "without"
        self.note(f"GET {path}", why, f"200 with `{expected_text}`", f"{status} {found} `{expected_text}`")

    def note(self, what, why, expected, got):
        """One line of the report."""
        self.rows.append((what, why, expected, got))
        print(f"test: {'ok  ' if expected == got else 'FAIL'} {what}: {why}: {got}", flush=True)

    def failures(self):
        """The lines where the answer differs from what was expected."""
        return [f"{what}: {why}: expected {expected}, got {got}" for what, why, expected, got in self.rows if expected != got]

    def text(self):
        """The report as Markdown."""
        failed = len(self.failures())
        lines = [
            "# Test report",
            "",
            "Real requests against the running application, along the API's description.",
            "",
            f"**{len(self.rows) - failed} of {len(self.rows)} as expected.**",
            "",
            "| | request | what for | expected | got |",
            "| --- | --- | --- | --- | --- |",
        ]
        for what, why, expected, got in self.rows:
            lines.append(f"| {'ok' if expected == got else '**FAIL**'} | `{what}` | {why} | {expected} | {got} |")
        return "\n".join(lines) + "\n"


def try_everything(report, spec):
    """The requests, in the order of a book's life."""
    seeded = report.call("list", 200, "the seed data is there", kind=list)
    report.note("GET /api/books", "number of books at the start", 6, len(seeded))
    book = report.call("create", 201, "a new book", body=BOOK)
    number = book.get("id", 0)
    report.note("POST /api/books", "the stored book is the one that was sent", BOOK, {name: book.get(name) for name in BOOK})
    report.call("create", 409, "the same ISBN again", body=BOOK)
    for field in spec["fields"]:
        if field["required"]:
            body = {name: value for name, value in BOOK.items() if name not in (field["name"], "isbn")}
            report.call("create", 400, f"a book without {field['name']}", body=body)
    report.call("read", 200, "the new book", number)
    changed = report.call("update", 200, "another year", number, {"year": 1980})
    report.note(f"PATCH /api/books/{number}", "the year is changed", 1980, changed.get("year"))
    report.call("update", 400, "an unknown field", number, {"colour": "red"})
    report.call("delete", 204, "the new book", number)
    report.call("read", 404, "the deleted book", number)
    report.call("update", 404, "the deleted book", number, {"year": 1})
    report.call("delete", 404, "the deleted book", number)
    left = report.call("list", 200, "the list again", kind=list)
    report.note("GET /api/books", "number of books at the end", 6, len(left))
    report.fetch("/", '<form id="form">', "the page has the form")
    report.fetch("/style.css", "font", "the style")
    for route in spec["routes"]:
        report.fetch("/app.js", f'call("{route["method"]}", "{route["path"]}"', f"the script calls {route['name']}")
    report.note("description", "routes that were called", sorted(report.routes), sorted(report.called))


def main():
    spec = desk.artifact("api", "api_spec")
    with tempfile.TemporaryDirectory() as folder:
        try:
            application = Application(folder)
        except RuntimeError as error:
            desk.report("FAILED", "The application does not start.", blockers=[str(error)])
            return 1
        try:
            report = Report(application, spec)
            try_everything(report, spec)
        finally:
            application.stop()
    pathlib.Path("test_report.md").write_text(report.text(), encoding="utf-8")
    failures = report.failures()
    if failures:
        desk.report("FAILED", f"{len(failures)} of {len(report.rows)} requests were not answered as expected.", blockers=failures)
        return 1
    desk.report("SUCCESS", f"All {len(report.rows)} requests were answered as expected; see test_report.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
