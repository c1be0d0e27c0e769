"""pyslurm, built once for one Slurm and one Python, as a folder that is bound into clusters beside the tree.

pyslurm's newest release is for Slurm 25.11. The headers in bridge/ stand before Slurm 26.05's own and translate what
changed. When that cannot work (the suite moved on, the index is down) there is no layer, and the command back end serves.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tiresias.sandbox import paths
from tiresias.sandbox.locks import exclusive
from tiresias.sandbox.rootfs import SUITES, Rootfs

VERSION = "25.11.2"
BRIDGED = "26.05"  # the Slurm that bridge/ was written for
BRIDGE = Path(__file__).with_name("bridge")
BUILD_TOOLS = ("Cython>=3.1", "setuptools", "wheel", "packaging")


def ensure(tree: Rootfs, *, say: Callable[[str], None] = lambda line: None) -> Path | None:
    """The layer's folder, or None (said in one line) when pyslurm cannot be had for this tree."""
    if not SUITES[tree.suite].has_bridge:
        return None
    if not tree.slurm_version.startswith(BRIDGED + "."):
        say(
            f"{tree.suite} has Slurm {tree.slurm_version} now; pyslurm {VERSION} fits {BRIDGED} only: using the command back end"
        )
        return None
    final = paths.pyslurm_folder() / f"{VERSION}-{_key(tree)}"
    if not final.is_dir():
        final.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(final.with_name(final.name + ".lock")):
            if not final.is_dir():
                say(f"building pyslurm {VERSION} for Slurm {tree.slurm_version} (once, about a minute) ...")
                reason = _build(tree, final)
                if reason:
                    say(f"{reason}: using the command back end")
                    return None
    return final


def _key(tree: Rootfs) -> str:
    digest = hashlib.sha256(f"{VERSION} {tree.slurm_version} {tree.python_version}".encode())
    for header in sorted(BRIDGE.glob("slurm/*.h")):
        digest.update(header.read_bytes())
    return digest.hexdigest()[:12]


def _build(tree: Rootfs, final: Path) -> str:
    """Builds under a temporary name; returns why it could not, "" when it could. Runs under the lock of `final`."""
    for leftover in final.parent.glob(f"{final.name}.tmp*"):
        shutil.rmtree(leftover)
    work = final.with_name(f"{final.name}.tmp{os.getpid()}")
    work.mkdir()
    log = final.with_name(f"{final.name}.log")
    try:
        with log.open("wb") as output:
            if any(_run(command, output) for command in _downloads(tree, work / "downloads")):
                return f"pyslurm {VERSION} or its build tools cannot be downloaded (log: {log})"
            if _run(_compile(tree, work), output):
                return f"pyslurm {VERSION} does not build against Slurm {tree.slurm_version} (log: {log})"
        os.sync()
        (work / "site").rename(final)
        return ""
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], output: IO[bytes]) -> int:
    """A killed builder takes its children along: the parent-death signal survives the exec."""
    return subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", *command], stdout=output, stderr=output, check=False
    ).returncode


def _downloads(tree: Rootfs, target: Path) -> list[list[str]]:
    """The host's pip fetches, with whatever index it is configured for; the build itself needs no network."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(target)]
    python = ".".join(tree.python_version.split(".")[:2])
    return [
        [*pip, "--no-deps", "--no-binary=pyslurm", f"pyslurm=={VERSION}"],
        [*pip, f"--python-version={python}", "--only-binary=:all:", *BUILD_TOOLS],
    ]


def _compile(tree: Rootfs, work: Path) -> list[str]:
    pip = "PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) exec python3 -m pip"  # python3-venv brings the wheel
    options = f"--no-index --find-links /tmp/work/downloads --no-deps --no-cache-dir --target /tmp/work/site pyslurm=={VERSION}"
    return [
        "bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--ro-bind", str(tree.path), "/", "--proc", "/proc",
        "--dev", "/dev", "--tmpfs", "/tmp", "--bind", str(work), "/tmp/work", "--ro-bind", str(BRIDGE), "/tmp/bridge",
        "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--setenv", "CFLAGS", "-O0",
        "--setenv", "SLURM_INCLUDE_DIR", "/tmp/bridge", "--setenv", "SLURM_LIB_DIR", "/usr/lib/x86_64-linux-gnu",
        "--setenv", "PYSLURM_BUILD_JOBS", str(os.cpu_count() or 1), "/bin/sh", "-c", f"{pip} install {options}",
    ]  # fmt: skip
