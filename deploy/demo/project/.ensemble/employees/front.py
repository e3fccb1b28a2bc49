"""Front, a script standing in for a front-end developer's agent.

It reads its brief and the context beside it, works in the current directory (its own copy of the
repository) and writes the result file. Form, table, calls and guide are made from the API
description that the task `api` delivered: another description gives another page.
"""
import html
import json
import os
import pathlib
import sys
import time

import desk

WEB = pathlib.Path("web")

SKELETON = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Book management</title>
<link rel="stylesheet" href="/style.css">
<main>
  <h1>Book management</h1>
  <p id="status" role="status"></p>
  <!-- form -->
  <!-- table -->
</main>
<noscript>This page shows and changes books with a script; without one, use the API.</noscript>
<script src="/app.js"></script>
</html>
"""

STYLE = """body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: #222; background: #faf8f5; }
main { max-width: 60rem; margin: auto; padding: 1rem; }
form { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: end; margin-block: 1rem; }
label { display: grid; font-size: .85rem; }
input { font: inherit; padding: .25rem .5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .5rem; border-bottom: 1px solid #ddd; }
#status:empty { display: none; }
"""

SCRIPT_HEAD = """// One function for each route of the API, made from its description; below them the page itself.
"use strict";

const FIELDS = @FIELDS@;

async function call(method, path, { id, query, body } = {}) {
  let address = path.replace("{id}", encodeURIComponent(id));
  if (query) address += "?" + new URLSearchParams(query);
  const options = { method };
  if (body) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(address, options);
  const value = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}
"""

SCRIPT_TAIL = """
const byId = (id) => document.getElementById(id);
let editing = null;

// Runs an action, then shows the list again; an error is shown, not swallowed.
async function act(action) {
  try {
    byId("status").textContent = "";
    await action();
    show(await api.list({ query: { q: byId("search").value } }));
  } catch (error) {
    byId("status").textContent = error.message;
  }
}

function show(books) {
  byId("books").replaceChildren(...books.map((book) => {
    const row = document.createElement("tr");
    for (const field of FIELDS) row.insertCell().textContent = book[field.name] ?? "";
    row.insertCell().append(
      button("Edit", () => act(() => edit(book.id))),
      button("Delete", () => act(() => api.delete({ id: book.id }))));
    return row;
  }));
}

function button(text, action) {
  const one = document.createElement("button");
  one.type = "button";
  one.textContent = text;
  one.addEventListener("click", action);
  return one;
}

async function edit(id) {
  const book = await api.read({ id });
  for (const field of FIELDS) byId("form").elements[field.name].value = book[field.name] ?? "";
  editing = id;
}

// The form's fields as a book: empty ones are left out, or cleared when a book is changed.
function entered() {
  const book = {};
  for (const field of FIELDS) {
    const text = byId("form").elements[field.name].value.trim();
    if (text) book[field.name] = field.type === "number" ? Number(text) : text;
    else if (editing !== null && field.nullable) book[field.name] = null;
  }
  return book;
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  act(async () => {
    if (editing === null) await api.create({ body: entered() });
    else await api.update({ id: editing, body: entered() });
    editing = null;
    byId("form").reset();
  });
});
byId("form").addEventListener("reset", () => { editing = null; });
byId("search").addEventListener("input", () => act(() => {}));
act(() => {});
"""


def think(text, seconds):
    """Says what it is at, and takes the time that a short thought takes."""
    print(f"front: {text}", flush=True)
    time.sleep(seconds)


def lay_out():
    """Task skeleton: page and style with marked places."""
    think("laying out the page", 0.8)
    WEB.mkdir(exist_ok=True)
    (WEB / "index.html").write_text(SKELETON, encoding="utf-8")
    (WEB / "style.css").write_text(STYLE, encoding="utf-8")
    desk.report("SUCCESS", "The page with marked places for the form and the table, and its style.")


def form(spec):
    """The search box and one input for each field."""
    inputs = "\n".join(
        f'    <label>{html.escape(field["name"].capitalize())} '
        f'<input name="{html.escape(field["name"])}" type="{html.escape(field["type"])}"'
        f'{" required" if field["required"] else ""}></label>'
        for field in spec["fields"]
    )
    return (
        '<label>Search <input id="search" type="search"></label>\n'
        f'  <form id="form">\n{inputs}\n    <button>Save</button> <button type="reset">Clear</button>\n  </form>'
    )


def table(spec):
    """The table's head, one column for each field."""
    heads = "".join(f'<th scope="col">{html.escape(field["name"].capitalize())}</th>' for field in spec["fields"])
    return f'<table>\n    <thead><tr>{heads}<td></td></tr></thead>\n    <tbody id="books"></tbody>\n  </table>'


def script(spec):
    """app.js: a function for each route, then the page."""
    calls = "\n".join(
        f'  {route["name"]}: (given) => call("{route["method"]}", "{route["path"]}", given),' for route in spec["routes"]
    )
    fields = json.dumps(spec["fields"])
    return SCRIPT_HEAD.replace("@FIELDS@", fields) + f"\nconst api = {{\n{calls}\n}};\n" + SCRIPT_TAIL


def build_page():
    """Task page: fills the skeleton and writes the script from the API's description."""
    spec = desk.artifact("api", "api_spec")
    think(f"building the page for {len(spec['fields'])} fields and {len(spec['routes'])} routes", 1.0)
    page = (WEB / "index.html").read_text(encoding="utf-8")
    page = page.replace("<!-- form -->", form(spec)).replace("<!-- table -->", table(spec))
    (WEB / "index.html").write_text(page, encoding="utf-8")
    (WEB / "app.js").write_text(script(spec), encoding="utf-8")
    desk.report("SUCCESS", f"The page, calling all {len(spec['routes'])} routes of the API's description.")


def write_guide():
    """Task guide: hands the text over in the result; the runtime writes the file."""
    spec = desk.artifact("api", "api_spec")
    think("writing the guide", 0.5)
    lines = [
        "# Book management", "", "Start it with `sh bin/start.sh` and open the address that it prints.",
        "`PORT` and `DATABASE` may be set in the environment.", "", "## The API", "",
        "| route | method | path | answers |", "| --- | --- | --- | --- |",
    ]
    for route in spec["routes"]:
        answers = ", ".join(str(status) for status in route["answers"])
        lines.append(f"| {route['name']} | {route['method']} | `{route['path']}` | {answers} |")
    lines += ["", "## A book", "", "| field | type | required |", "| --- | --- | --- |"]
    for field in spec["fields"]:
        lines.append(f"| `{field['name']}` | {field['type']} | {'yes' if field['required'] else 'no'} |")
    desk.report("SUCCESS", "How to start the application and call its API.", outputs={"docs/guide.md": "\n".join(lines) + "\n"})


TASKS = {"skeleton": lay_out, "page": build_page, "guide": write_guide}


def main():
    task = os.environ["ENSEMBLE_TASK"]
    brief = sys.stdin.read()
    print(f"front: brief of {len(brief.splitlines())} lines for task {task}, attempt {os.environ['ENSEMBLE_ATTEMPT']}")
    if task not in TASKS:
        desk.report("BLOCKED", "This script knows the tasks of the demo only.", blockers=[f"unknown task {task}"])
        sys.exit(1)
    TASKS[task]()


if __name__ == "__main__":
    main()
