"""Makes what a guest boots from: the kernel as a plain ELF file, the initial RAM file system, and its disks.

    images.py PACKAGES CACHE IMAGE INIT NAME=FILE...

``PACKAGES``: the folder of packages.sh; ``IMAGE``: the archive of cluster/image.sh, whose layers are the
guest's root file system; ``NAME=FILE``: the programs of the payload. Prints lines of ``name=path``. Each part
is kept in the cache folder under a name that tells what it was made from, and made again when that changes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

# What the root file system and the agent need; the rest is loaded by tests.
# ext4 asks the kernel for crc32c by a name that only an installed modprobe resolves.
BOOT_MODULES = ("crc32c_generic", "virtio_pci", "virtio_net", "virtio_blk", "squashfs", "overlay", "ext4")
DEVICE_MODULES = ("igb", "igbvf", "vfio-pci", "vfio_iommu_type1", "virtio-gpu")
_XZ = b"\xfd7zXZ\0"
_ELF = b"\x7fELF"


def main(arguments: Sequence[str]) -> None:
    packages, cache, image, init = map(Path, arguments[:4])
    programs = dict(argument.split("=", 1) for argument in arguments[4:])
    made = Cache(cache)
    tools = packages / "root"
    kernel = next((packages / "kernel/boot").glob("vmlinuz-*"))
    modules = Modules(next((packages / "kernel/lib/modules").iterdir()))
    code = Path(__file__).read_bytes()
    vmlinux = made.part(
        "guest-kernel", [str(kernel).encode(), code], lambda path: unpack_kernel(kernel, path)
    )
    busybox = next(path for path in (tools / "bin/busybox", tools / "usr/bin/busybox") if path.exists())
    initrd = made.part(
        "guest-initrd",
        [str(kernel).encode(), code, init.read_bytes()],
        lambda path: write_initrd(path, busybox=busybox, init=init, modules=modules),
    )
    programs |= {"busybox": str(busybox), "runc": str(next(tools.glob("usr/*bin/runc")))}
    payload = made.part(
        "guest-payload",
        [str(kernel).encode(), code, init.read_bytes(), repr(sorted(programs.items())).encode()],
        lambda path: write_payload(path, tools=tools, init=init, programs=programs, modules=modules),
    )
    print(f"kernel={vmlinux}\ninitrd={initrd}\npayload={payload}")
    for name, layer, digest in zip(("base", "app"), *layers(image), strict=True):
        disk = made.part(
            f"guest-{name}",
            [digest.encode()],
            lambda path, layer=layer: squash_layer(path, tools=tools, image=image, layer=layer),
        )
        print(f"{name}={disk}")


class Cache:
    """A folder of files that are made once; an older file of the same kind goes when a new one is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def part(self, name: str, inputs: Sequence[bytes], make) -> Path:
        key = hashlib.sha256(b"\0".join(inputs)).hexdigest()[:12]
        target = self._folder / f"{name}-{key}"
        if not target.exists():
            print(f"guest: making {name}", file=sys.stderr, flush=True)
            unfinished = self._folder / f"{name}-{key}.part"
            unfinished.unlink(missing_ok=True)
            make(unfinished)
            os.replace(unfinished, target)
            for old in self._folder.glob(f"{name}-????????????"):
                if old != target:
                    old.unlink()
        return target


def unpack_kernel(vmlinuz: Path, target: Path) -> None:
    """Write the ELF file inside: a machine that boots by it (PVH) skips unpacking, seconds without KVM."""
    packed = vmlinuz.read_bytes()
    position = packed.find(_XZ)
    while position >= 0:
        try:
            kernel = lzma.LZMADecompressor().decompress(packed[position:])
        except lzma.LZMAError:
            kernel = b""
        if kernel.startswith(_ELF):
            target.write_bytes(kernel)
            return
        position = packed.find(_XZ, position + 1)
    raise ValueError(f"{vmlinuz}: no ELF file packed by xz inside")


class Modules:
    """The modules of a kernel, and what each needs (its modinfo says so; nobody has run depmod)."""

    def __init__(self, folder: Path) -> None:
        self._paths = {_module_name(path): path for path in folder.rglob("*.ko")}
        self._built_in = {
            _module_name(Path(line)) for line in (folder / "modules.builtin").read_text().split()
        }

    def closure(self, names: Sequence[str]) -> list[Path]:
        """Return the files of the modules and of all that they need, in the order to load them."""
        found: dict[str, Path] = {}
        for name in names:
            self._add(name.replace("-", "_"), found)
        return list(found.values())

    def _add(self, name: str, found: dict[str, Path]) -> None:
        if name in found or name in self._built_in:
            return
        path = self._paths[name]
        for needed in _modinfo(path, "depends"):
            self._add(needed.replace("-", "_"), found)
        found[name] = path


def _module_name(path: Path) -> str:
    return path.name.removesuffix(".ko").replace("-", "_")


def _modinfo(path: Path, key: str) -> list[str]:
    for entry in path.read_bytes().split(b"\0"):
        if entry.startswith(f"{key}=".encode()):
            return [name for name in entry.decode().partition("=")[2].split(",") if name]
    return []


def write_initrd(target: Path, *, busybox: Path, init: Path, modules: Modules) -> None:
    wanted = modules.closure(BOOT_MODULES)
    files = {"init": init.read_bytes(), "bin/busybox": busybox.read_bytes()}
    files |= {f"modules/{path.name}": path.read_bytes() for path in wanted}
    files["modules/order"] = "".join(f"{path.name}\n" for path in wanted).encode()
    target.write_bytes(gzip.compress(b"".join(_cpio(files)), compresslevel=1, mtime=0))


def _cpio(files: dict[str, bytes]) -> Iterator[bytes]:
    """Yield a "newc" archive (Linux's initramfs buffer format)."""
    folders = sorted({str(parent) for name in files for parent in Path(name).parents if str(parent) != "."})
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in folders]
    entries += [(name, stat.S_IFREG | 0o755, content) for name, content in files.items()]
    for inode, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        yield header + bytes(-len(header) % 4)
        yield content + bytes(-len(content) % 4)


def write_payload(
    target: Path, *, tools: Path, init: Path, programs: dict[str, str], modules: Modules
) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        folder = Path(scratch)
        (folder / "bin").mkdir()
        (folder / "modules").mkdir()
        for name, path in programs.items():
            shutil.copy(path, folder / "bin" / name)
        for applet in ("ip", "insmod", "unshare", "nsenter", "poweroff"):
            (folder / "bin" / applet).symlink_to("busybox")
        shutil.copy(init, folder / "init.sh")
        already = set(modules.closure(BOOT_MODULES))
        for name in DEVICE_MODULES:
            wanted = [path for path in modules.closure([name]) if path not in already]
            for path in wanted:
                shutil.copy(path, folder / "modules")
            (folder / f"modules/{name}.order").write_text("".join(f"{path.name}\n" for path in wanted))
        _squash(tools, target, str(folder))


def layers(image: Path) -> tuple[list[str], list[str]]:
    """Return names and digests of the two layers of an image in docker's format: base, application."""
    with tarfile.open(image) as archive:
        manifest = json.loads(archive.extractfile("manifest.json").read())[0]
        config = json.loads(archive.extractfile(manifest["Config"]).read())
    names, digests = manifest["Layers"], config["rootfs"]["diff_ids"]
    if len(names) != 2:
        raise ValueError(f"{image}: {len(names)} layers, expected the base image's and our own")
    return names, digests


def squash_layer(target: Path, *, tools: Path, image: Path, layer: str) -> None:
    with tarfile.open(image) as archive:
        content = archive.extractfile(layer)
        with tempfile.NamedTemporaryFile(dir=target.parent) as tar:
            shutil.copyfileobj(content, tar)
            tar.flush()
            tar.seek(0)
            _squash(tools, target, "-", "-tar", stdin=tar)


def _squash(tools: Path, target: Path, source: str, *options: str, stdin=None) -> None:
    libraries = tools / "lib/x86_64-linux-gnu", tools / "usr/lib/x86_64-linux-gnu"
    command = [
        str(libraries[0] / "ld-linux-x86-64.so.2"),
        "--library-path",
        ":".join(map(str, libraries)),
        str(tools / "usr/bin/mksquashfs"),
        source,
        str(target),
        *options,
        *("-comp", "lz4", "-noappend", "-no-progress", "-quiet", "-mkfs-time", "0"),
        # What is made from folders belongs to root; a layer says itself who owns what.
        *(() if options else ("-all-root",)),
    ]
    subprocess.run(command, check=True, stdin=stdin or subprocess.DEVNULL, stdout=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
