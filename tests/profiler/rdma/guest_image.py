"""What a guest with soft-RoCE is started from: kernel, initramfs and a small root, all of Debian packages.

`ensure()` returns the finished folder, made once (half a minute, most of it downloads). Nothing on this machine is
installed or changed: the packages are unpacked, not configured, and their kernel runs in the guest only.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tiresias.errors import TiresiasError
from tiresias.sandbox import host, paths
from tiresias.sandbox.atomic import build_once
from tiresias.sandbox.rootfs import mirror

RECIPE = 1  # raise it when what is made of the packages changes
SUITE = "trixie"  # its C library runs what is compiled on anything older
# The ordinary kernel: the cloud one has no rdma_rxe.
PACKAGES = ("linux-image-amd64", "busybox-static", "iproute2", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils",
            "perftest")  # fmt: skip
# Each after those that it depends on; the kernel would load crc32_generic by itself, had it a modprobe.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "virtio_net", "dummy", "crc32_generic", "rdma_rxe", "ib_uverbs",
           "rdma_ucm")  # fmt: skip
INIT = Path(__file__).with_name("init.sh")
BUILD_SPACE_MB = 1000


def ensure() -> Path:
    """The folder with `kernel`, `initramfs` and `root`. Raises TiresiasError where it cannot be made."""
    shape = repr((RECIPE, SUITE, PACKAGES, MODULES, mirror(), INIT.read_text()))
    final = paths.home() / "rdma-guest" / hashlib.sha256(shape.encode()).hexdigest()[:12]
    if not final.is_dir():
        build_once(final, _build)
    return final


def _build(folder: Path) -> None:
    host.require_tools()
    host.require_disk_space(folder.parent, BUILD_SPACE_MB)
    folder.mkdir()
    root = folder / "root"
    _unpack(root)
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    shutil.copy(kernel, folder / "kernel")
    (folder / "initramfs").write_bytes(gzip.compress(_archive(root), 1))
    for kernels in ("boot", "usr/lib/modules", "usr/share"):
        shutil.rmtree(root / kernels)
    for name in ("bin", "sbin", "lib", "lib64"):
        if not (root / name).exists():  # base-files would have made these links
            (root / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "run", "tmp", "share"):
        (root / name).mkdir(exist_ok=True)


def _unpack(root: Path) -> None:
    command = [
        "setpriv", "--pdeathsig", "KILL", "unshare", *host.user_namespace(),
        "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
        "mmdebstrap", "--quiet", "--mode=root", "--format=directory", "--variant=extract", f"--include={','.join(PACKAGES)}",
        '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=APT::Sandbox::User "root"',
        '--aptopt=Acquire::Languages "none"', SUITE, str(root), mirror(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")] or ["no message"]
        raise TiresiasError(f"the packages of the RDMA guest cannot be unpacked: {errors[0][2:].strip()}")


def _archive(root: Path) -> bytes:
    """An initramfs (cpio, "newc"): busybox, an init script, and the modules in the order in which they go in."""
    files = {"init": INIT.read_bytes(), "busybox": (root / "usr/bin/busybox").read_bytes()}
    names = []
    for name, content in _modules(root):
        files[f"{name}.ko"] = content
        names.append(f"{name}\n")
    files["modules"] = "".join(names).encode()
    entries = [_entry(name, 0o40755) for name in ("proc", "dev", "root")]
    entries += [_entry(name, 0o100755, content) for name, content in files.items()]
    return b"".join([*entries, _entry("TRAILER!!!", 0)])


def _entry(name: str, mode: int, content: bytes = b"") -> bytes:
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _modules(root: Path) -> Iterator[tuple[str, bytes]]:
    files = {file.name.split(".")[0].replace("-", "_"): file for file in root.glob("usr/lib/modules/**/*.ko*")}
    done: set[str] = set()

    def load(name: str) -> Iterator[tuple[str, bytes]]:
        if name in done or name not in files:  # what is no file is built into the kernel
            return
        done.add(name)
        content = lzma.decompress(files[name].read_bytes())
        for needed in _needs(content):
            yield from load(needed)
        yield name, content

    for name in MODULES:
        yield from load(name)


def _needs(module: bytes) -> list[str]:
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []
