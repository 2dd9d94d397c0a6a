"""Stands in for kubectl: answers from ``site.json`` in its folder, and keeps each call in ``calls``.

``site.json``: ``pods`` (what the plugin's template prints, one line each), ``nodes``, ``refused`` (what
this user may not do), ``said`` (pod -> [standard output, standard error, exit code] of exec and logs).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(sys.argv[1])
ARGUMENTS = sys.argv[2:]
SITE = json.loads((HERE / "site.json").read_text())


def after(*names: str) -> str:
    """The value of an option, empty without one."""
    for name, value in zip(ARGUMENTS, [*ARGUMENTS[1:], ""], strict=True):
        if name in names:
            return value
    return ""


def forbidden(what: str) -> int:
    sys.stderr.write(f"Error from server (Forbidden): {what} is forbidden\n")
    return 1


def main() -> int:
    with (HERE / "calls").open("a") as calls:
        calls.write(f"{json.dumps(ARGUMENTS)}\n")
    words = [word for word in ARGUMENTS if not word.startswith("--context=")]
    refused = SITE.get("refused", [])
    match words[:2]:
        case ["auth", "can-i"]:
            asked = " ".join([*words[2:4], after("--subresource")]).strip()
            sys.stdout.write("no\n" if asked in refused else "yes\n")
            return 0
        case ["get", "pods"]:
            if "list pods" in refused:
                return forbidden("pods")
            sys.stdout.writelines(f"{line}\n" for line in SITE["pods"])
            return 0
        case ["get", "node"]:
            return 0 if words[2] in SITE["nodes"] else 1
        case ["exec" | "logs" as verb, "--namespace"]:
            if (f"{verb} pods" if verb == "logs" else "create pods exec") in refused:
                return forbidden(verb)
            out, err, code = SITE["said"][words[3]]
            sys.stdout.write(out)
            sys.stderr.write(err)
            return int(code)
    raise SystemExit(f"fake kubectl does not know {ARGUMENTS}")


raise SystemExit(main())
