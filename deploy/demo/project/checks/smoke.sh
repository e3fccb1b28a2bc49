#!/bin/sh
# The API starts on a free port, stores a book and gives it back. Leaves nothing running.
set -eu
exec python3 - <<'PYTHON'
import json, pathlib, subprocess, sys, tempfile, urllib.request

with tempfile.TemporaryDirectory() as folder:
    server = subprocess.Popen(
        [sys.executable, "app/api.py", "--port", "0", "--database", str(pathlib.Path(folder, "books.db"))],
        stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        assert "http://" in line, f"the server said {line!r} instead of its address"
        address = line.split()[-1] + "/api/books"
        book = {"title": "Middlemarch", "author": "George Eliot"}
        request = urllib.request.Request(address, json.dumps(book).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert answer.status == 201, answer.status
        with urllib.request.urlopen(address, timeout=5) as answer:
            titles = [one["title"] for one in json.load(answer)]
        assert titles == ["Middlemarch"], titles
        print("smoke test passed at", address)
    finally:
        server.terminate()
        server.wait(5)
PYTHON
