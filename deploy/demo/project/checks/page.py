"""Routes called against routes served, and element ids used against ids there."""
import json
import pathlib
import re
import sys

spec = json.loads(pathlib.Path("docs/api.json").read_text())
script = pathlib.Path("web/app.js").read_text()
page = pathlib.Path("web/index.html").read_text()

served = {(route["method"], route["path"]) for route in spec["routes"]}
called = set(re.findall(r"""call\("([A-Z]+)", "([^"]+)\"""", script))
wanted = set(re.findall(r"""byId\("([^"]+)"\)""", script))
present = set(re.findall(r"""\bid="([^"]+)\"""", page))
inputs = set(re.findall(r"""<(?:input|select)[^>]* name="([^"]+)\"""", page))
fields = {field["name"] for field in spec["fields"]}

findings = (
    [f"called but not served: {method} {path}" for method, path in sorted(called - served)]
    + [f"served but not called: {method} {path}" for method, path in sorted(served - called)]
    + [f"no element with id {name}" for name in sorted(wanted - present)]
    + [f"no input for the field {name}" for name in sorted(fields - inputs)]
)
print("\n".join(findings) or f"{len(called)} routes, {len(fields)} fields and {len(wanted)} elements agree")
sys.exit(1 if findings else 0)
