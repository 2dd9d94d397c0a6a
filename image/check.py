"""Checks a built image by its archive (``docker save``): labels, bill of materials, what is left out.

::

    python3 image/check.py image.tar

Prints a line about it, or every problem, and then fails.
"""

from __future__ import annotations

import json
import re
import stat
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
HOME = "opt/numaplace/"
BILL = f"{HOME}sbom.cdx.json"
LABELS = ("title", "description", "licenses", "version", "revision", "base.name")
PREFIX = "org.opencontainers.image."


def normal(name: str) -> str:
    """Return the name of a Python package as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> Mapping[str, str]:
    """Return name -> version of the locked dependencies."""
    text = (ROOT / "requirements/run.lock").read_text()
    return {normal(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.M)}


def of_config(config: Mapping[str, Any]) -> Iterator[str]:
    """Give what is wrong with labels, user and entry point."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = config.get("Labels", {})
    for name in LABELS:
        if not labels.get(f"{PREFIX}{name}"):
            yield f"the label {PREFIX}{name} is missing"
    for label, wanted in (("version", project["version"]), ("licenses", project["license"])):
        if labels.get(f"{PREFIX}{label}") != wanted:
            yield f"{PREFIX}{label} is not {wanted}"
    if config.get("Entrypoint") != ["numaplace"]:
        yield f"the entry point is {config.get('Entrypoint')}"
    if not any(one.startswith(f"PATH=/{HOME}bin:") for one in config.get("Env", ())):
        yield "numaplace is not first in PATH"
    if "9477/tcp" not in config.get("ExposedPorts", {}):
        yield "the port 9477 is not exposed"


def of_bill(bill: Mapping[str, Any]) -> Iterator[str]:
    """Give what the bill of materials lacks."""
    urls = [one.get("purl", "") for one in bill["components"]]
    found = re.findall(r"^pkg:pypi/([^@]+)@(\S+)$", "\n".join(urls), re.M)
    python = {normal(name): version for name, version in found}
    if lacking := locked().items() - python.items():
        yield f"the bill lacks {sorted(lacking)}"
    if more := python.keys() - locked().keys() - {"numaplace"}:
        yield f"the bill has {sorted(more)}, which are not locked"
    if not any(url.startswith("pkg:deb/debian/libc6@") for url in urls):
        yield "the bill has no packages of the base image"
    if not any(re.match(r"pkg:(generic/python|deb/debian/python3[\w.-]*)@", url) for url in urls):
        yield "the bill has no interpreter"
    if bill["metadata"]["component"]["name"] != "numaplace":
        yield "the bill is not about numaplace"


def of_files(files: Mapping[str, tarfile.TarInfo]) -> Iterator[str]:
    """Give what should not be in our own layer, or is missing."""
    for name, file in files.items():
        if not name.startswith(HOME.split("/")[0]):
            yield f"{name} is in our layer"
        if file.isfile() and file.mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH):
            yield f"{name} has the mode {file.mode:o}"
        source = re.fullmatch(r"(.*/site-packages/numaplace/(?:.*/)?)(\w+)\.py", name)
        if source and not any(
            one.startswith(f"{source[1]}__pycache__/{source[2]}.cpython-") for one in files
        ):
            yield f"{name} is not compiled"
    if any(re.search(r"/site-packages/(pip|setuptools)/", name) for name in files):
        yield "pip or setuptools is left"


def member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """Return a file of the archive."""
    found = archive.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def check(file: Path) -> tuple[list[str], str]:
    """Return the problems, and a line about the image."""
    with tarfile.open(file) as image:
        (manifest,) = json.load(member(image, "manifest.json"))
        config = json.load(member(image, manifest["Config"]))["config"]
        with tarfile.open(fileobj=member(image, manifest["Layers"][-1])) as layer:
            names = {one.name.removeprefix("./"): one for one in layer}
            if BILL not in names:
                return [*of_config(config), f"{BILL} is missing"], ""
            bill = json.load(member(layer, names[BILL].name))
    problems = [*of_config(config), *of_bill(bill), *of_files(names)]
    size = sum(one.size for one in names.values())
    return problems, (
        f"{config['Labels'][f'{PREFIX}version']}, our layer {size / 1e6:.0f} MB in {len(names)} files, "
        f"{len(bill['components'])} components in its bill of materials"
    )


def main(archive: str) -> int:
    """Print what is wrong or what it is; return the exit code."""
    problems, line = check(Path(archive))
    sys.stdout.write("".join(f"image: {one}\n" for one in problems or [line]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
