"""Prints the image's software bill of materials (CycloneDX 1.6, JSON); it runs while the image is built.

::

    cyclonedx-py environment … /opt/numaplace/bin/python | python image/sbom.py [ROOT]

What comes in are the Python packages of the environment, as installed. What is added are the packages of the
base image, as Debian's package manager has them under ROOT, and the interpreter where it is not one of them.
The result is checked against CycloneDX's own schema.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

VERSION = SchemaVersion.V1_6


def os_release(root: Path) -> Mapping[str, str]:
    """Return the names and values of ``/etc/os-release``; nothing where there is none."""
    file = root / "etc/os-release"
    lines = file.read_text().splitlines() if file.exists() else []
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name: value.strip('"') for name, _, value in pairs}


def installed(root: Path) -> Iterator[Mapping[str, str]]:
    """Give the fields of each Debian package that is installed."""
    status = root / "var/lib/dpkg/status"
    for paragraph in status.read_text().split("\n\n") if status.exists() else ():
        pairs = (line.partition(": ") for line in paragraph.splitlines() if not line.startswith(" "))
        fields = {name: value for name, _, value in pairs}
        if fields.get("Status", "").endswith(" installed"):
            yield fields


def of_debian(fields: Mapping[str, str], distribution: Mapping[str, str]) -> Component:
    """Return the component of a Debian package."""
    name, vendor = fields["Package"], distribution.get("ID", "debian")
    distro = "-".join(filter(None, (vendor, distribution.get("VERSION_ID"))))
    purl = PackageURL(
        "deb", vendor, name, fields["Version"], {"arch": fields["Architecture"], "distro": distro}
    )
    return Component(
        name=name,
        version=fields["Version"],
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=purl.to_string(),
        description=fields.get("Description"),
    )


def interpreter() -> Component:
    """Return the component of a Python that was not installed as a package."""
    version = platform.python_version()
    purl = PackageURL("generic", None, "python", version)
    return Component(
        name="python", version=version, type=ComponentType.PLATFORM, purl=purl, bom_ref=purl.to_string()
    )


def complete(text: str, root: Path) -> str:
    """Return the bill of the Python packages with those of the system; ``ValueError`` if it is not one."""
    bom = Bom.from_json(json.loads(text))
    distribution = os_release(root)
    packages = [of_debian(fields, distribution) for fields in installed(root)]
    bom.components.update(packages)
    if not any(one.name == "python3-minimal" for one in packages):
        bom.components.add(interpreter())
    document = json.loads(make_outputter(bom, OutputFormat.JSON, VERSION).output_as_string())
    # The image is the same whenever it is built.
    document.pop("serialNumber", None)
    document["metadata"].pop("timestamp", None)
    made = json.dumps(document, indent=1)
    problem = JsonStrictValidator(VERSION).validate_str(made)
    if problem is not None:
        raise ValueError(f"the bill of materials is not valid: {problem}")
    return made


if __name__ == "__main__":
    sys.stdout.write(complete(sys.stdin.read(), Path(*sys.argv[1:2] or ["/"])) + "\n")
