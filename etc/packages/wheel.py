"""Builds the wheel of slurm-tiresias with libraries for old systems: compiled in a tree of Debian 11, whose C library is 2.31.

    python etc/packages/wheel.py dist        dist/slurm_tiresias-0.1.0-py3-none-manylinux_2_17_x86_64.whl

What the libraries need of the C library decides the tag (hatch_build.py). Needs hatchling, mmdebstrap and bubblewrap; the tree is
kept with those of the private cluster. It prints the file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tiresias.sandbox import host, paths, rootfs
from tiresias.sandbox.atomic import build_once

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ("profiler/native", "services/remote_memory/native")
SUITE, PACKAGES = "bullseye", ("gcc", "libc6-dev", "make", "libibverbs-dev")
BUILD_SPACE_MB = 600
NEWEST_GLIBC = 28  # of Enterprise Linux 8; wheels that need a newer 2.x are refused


def main() -> None:
    out = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="wheel-") as made:
        compile_in(tree(), Path(made))
        file = wheel(out, Path(made))
    glibc = int(file.name.split("manylinux_2_")[1].split("_")[0])
    if glibc > NEWEST_GLIBC:
        sys.exit(f"{file.name} needs glibc 2.{glibc}; 2.{NEWEST_GLIBC} is the newest that is meant")
    print(file)


def tree() -> Path:
    """Debian with a compiler, built once."""
    final = paths.rootfs_folder() / f"{SUITE}-compiler"
    host.require_tools()
    build_once(final, _build)
    return final


def _build(target: Path) -> None:
    host.require_disk_space(target.parent, BUILD_SPACE_MB)
    done = subprocess.run(rootfs.mmdebstrap(SUITE, PACKAGES, target), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"no tree of Debian {SUITE}: {done.stderr[-1000:]}")


def compile_in(tree: Path, out: Path) -> None:
    """The stripped libraries, in `out`."""
    makes = " && ".join(f"make -s -C /tmp/source/{each} OUT=/tmp/out CFLAGS=-O2" for each in NATIVE)
    sources = [word for each in NATIVE for word in ("--ro-bind", str(ROOT / each), f"/tmp/source/{each}")]
    bwrap = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--ro-bind", str(tree), "/", "--proc", "/proc",
             "--dev", "/dev", "--tmpfs", "/tmp", *sources,
             "--bind", str(out), "/tmp/out", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"]  # fmt: skip
    subprocess.run([*bwrap, "sh", "-c", f"{makes} && strip --strip-unneeded /tmp/out/*.so"], check=True)


def wheel(out: Path, libraries: Path) -> Path:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    python = os.environ.get("BUILD_PYTHON", sys.executable)  # one that has build-requirements.txt
    done = subprocess.run(
        [python, "-c", build, str(out)],
        cwd=ROOT,
        env={**os.environ, "TIRESIAS_NATIVE": str(libraries)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return out / done.stdout.split()[-1]


if __name__ == "__main__":
    main()
