"""The check of a built image finds what is wrong with it; the Dockerfile has what it looks for."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from image import check

ROOT = Path(__file__).parents[2]
SITE = "opt/numaplace/lib/python3.11/site-packages"
COMPONENTS = [
    *(f"pkg:pypi/{name}@{version}" for name, version in check.locked().items()),
    "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12",
    "pkg:generic/python@3.11.9",
]
FILES = {
    f"{SITE}/numaplace/__init__.py": 0o644,
    f"{SITE}/numaplace/__pycache__/__init__.cpython-311.pyc": 0o644,
    "opt/numaplace/bin/numaplace": 0o755,
}


def bill(components: list[str] = COMPONENTS, subject: str = "numaplace") -> dict[str, Any]:
    return {
        "metadata": {"component": {"name": subject}},
        "components": [{"name": "x", "purl": one} for one in components],
    }


def config(labels: Mapping[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    known = (
        dict.fromkeys(check.LABELS, "x") | {"version": "0.1.0", "licenses": "Apache-2.0"} | dict(labels or {})
    )
    return {
        "Labels": {f"{check.PREFIX}{name}": text for name, text in known.items()},
        "Entrypoint": ["numaplace"],
        "Env": ["PATH=/opt/numaplace/bin:/usr/bin"],
        "ExposedPorts": {"9477/tcp": {}},
        "User": "0",
        **changes,
    }


def tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as made:
        for name, (content, mode) in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            made.addfile(info, io.BytesIO(content))
    return text.getvalue()


def archive(
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    described: Mapping[str, Any] | None = None,
    files: Mapping[str, int] = FILES,
) -> Path:
    described = bill() if described is None else described
    layer = {name: (b"", mode) for name, mode in files.items()}
    if described:
        layer["opt/numaplace/sbom.cdx.json"] = (json.dumps(described).encode(), 0o644)
    manifest = [{"Config": "config.json", "Layers": ["base.tar", "own.tar"]}]
    members = {
        "manifest.json": json.dumps(manifest).encode(),
        "config.json": json.dumps({"config": settings or config()}).encode(),
        "own.tar": tar(layer),
    }
    file = folder / "image.tar"
    file.write_bytes(tar({name: (content, 0o644) for name, content in members.items()}))
    return file


def test_a_good_image_is_described_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(str(archive(tmp_path))) == 0
    assert f"0.1.0, our layer 0 MB in 4 files, {len(COMPONENTS)} components" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"settings": config({"revision": ""})}, "the label org.opencontainers.image.revision is missing"),
        ({"settings": config({"version": "0.0.9"})}, "org.opencontainers.image.version is not 0.1.0"),
        ({"settings": config(Entrypoint=["sh"])}, "the entry point is ['sh']"),
        ({"settings": config(Env=["PATH=/usr/bin"])}, "numaplace is not first in PATH"),
        ({"settings": config(ExposedPorts={})}, "the port 9477 is not exposed"),
        ({"described": {}}, "opt/numaplace/sbom.cdx.json is missing"),
        ({"described": bill(COMPONENTS[1:])}, "the bill lacks [('asyncinotify'"),
        ({"described": bill([*COMPONENTS, "pkg:pypi/pip@1"])}, "the bill has ['pip'], which are not locked"),
        ({"described": bill(COMPONENTS[:-2])}, "the bill has no packages of the base image"),
        ({"described": bill(COMPONENTS[:-1])}, "the bill has no interpreter"),
        ({"described": bill(subject="other")}, "the bill is not about numaplace"),
        ({"files": {**FILES, "etc/passwd": 0o644}}, "etc/passwd is in our layer"),
        ({"files": {**FILES, "opt/numaplace/bin/x": 0o4755}}, "opt/numaplace/bin/x has the mode 4755"),
        ({"files": {**FILES, f"{SITE}/numaplace/cli/run.py": 0o644}}, "numaplace/cli/run.py is not compiled"),
        ({"files": {**FILES, f"{SITE}/pip/__init__.py": 0o644}}, "pip or setuptools is left"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(
    broken: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main(str(archive(tmp_path, **broken))) == 1
    assert said in capsys.readouterr().out


def test_the_dockerfile_sets_every_label() -> None:
    text = (ROOT / "Dockerfile").read_text()
    final = text[text.rindex("FROM ") :]
    set_there = set(re.findall(r"org\.opencontainers\.image\.([\w.]+)=", final))
    assert set_there == set(check.LABELS)
    used = set(re.findall(r"\$\{(\w+)\}", final[final.index("\n") :]))
    assert used <= set(re.findall(r"^ARG (\w+)", final, re.M)), "an argument is not known in the last stage"


def test_every_tool_of_the_build_is_locked() -> None:
    for lock in ("run", "build", "sbom"):
        text = (ROOT / f"requirements/{lock}.lock").read_text()
        packages = re.findall(r"^[\w.-]+==\S+ \\$", text, re.M)
        assert packages
        assert text.count("--hash=sha256:") >= len(packages)
