"""pyslurm, built once for one Slurm and one Python, as a folder that is bound into clusters beside the tree.

pyslurm's newest release is for Slurm 25.11. The headers in bridge/ precede Slurm 26.05's own and translate the changes.
Where that fails (the suite has another Slurm, the index is unreachable) there is no layer, and the command back end is
used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from tiresias.errors import Unavailable
from tiresias.sandbox import paths
from tiresias.sandbox.atomic import build_once
from tiresias.sandbox.rootfs import SUITES, Rootfs

VERSION = "25.11.2"
BRIDGED = "26.05"  # the Slurm that bridge/ was written for
BRIDGE = Path(__file__).with_name("bridge")
JOBS = os.cpu_count() or 1
BUILD_TOOLS = ("Cython>=3.1", "setuptools", "wheel", "packaging")


def ensure(tree: Rootfs, *, report: Callable[[str], None] = lambda line: None) -> Path | None:
    """Return the folder to import from, or None, with one line to `report`, if pyslurm is unavailable for this tree."""
    if not SUITES[tree.suite].has_bridge:
        return None
    if not tree.slurm_version.startswith(BRIDGED + "."):
        report(
            f"{tree.suite} has Slurm {tree.slurm_version} now; pyslurm {VERSION} fits {BRIDGED} only: using the command back end"
        )
        return None
    final = paths.pyslurm_folder() / f"{VERSION}-{_key(tree)}"
    if not final.is_dir():
        report(f"building pyslurm {VERSION} for Slurm {tree.slurm_version} (once, about a minute) ...")
        try:
            build_once(final, lambda unfinished: _build(tree, unfinished, final.with_name(f"{final.name}.log")))
        except Unavailable as reason:
            report(f"{reason}: using the command back end")
            return None
    return final / "site"


def prefetch(suite: str) -> None:
    """Download pyslurm's source in the background. A failure is reported when the source is needed."""

    def fetch() -> None:
        with suppress(Unavailable, OSError):
            _source()

    if SUITES[suite].has_bridge:
        threading.Thread(target=fetch, daemon=True).start()


def _key(tree: Rootfs) -> str:
    digest = hashlib.sha256(f"{VERSION} {tree.slurm_version} {tree.python_version}".encode())
    for header in sorted(BRIDGE.glob("slurm/*.h")):
        digest.update(header.read_bytes())
    return digest.hexdigest()[:12]


def _source() -> Path:
    """Return the folder of pyslurm's source archive, downloaded once."""
    final = paths.pyslurm_folder() / f"source-{VERSION}"

    def fetch(unfinished: Path) -> None:
        with final.with_name(f"{final.name}.log").open("wb") as output:
            if _run([*_download(unfinished), "--no-deps", "--no-binary=pyslurm", f"pyslurm=={VERSION}"], output):
                raise Unavailable(f"pyslurm {VERSION} cannot be downloaded (log: {output.name})")

    build_once(final, fetch)
    return final


def _build(tree: Rootfs, target: Path, log: Path) -> None:
    """Build pyslurm. Raises Unavailable with the failed step, download or compilation."""
    (target / "site").mkdir(parents=True)
    shutil.copytree(_source(), target / "downloads")
    python = f"--python-version={'.'.join(tree.python_version.split('.')[:2])}"
    with log.open("wb") as output:
        if _run([*_download(target / "downloads"), python, "--only-binary=:all:", *BUILD_TOOLS], output):
            raise Unavailable(f"the tools that build pyslurm cannot be downloaded (log: {log})")
        (target / "build.cfg").write_text(f"[build_ext]\nparallel={JOBS}\n")
        if _run(_compile(tree, target), output):
            raise Unavailable(f"pyslurm {VERSION} does not build against Slurm {tree.slurm_version} (log: {log})")
    shutil.rmtree(target / "downloads")


def _run(command: list[str], output: IO[bytes]) -> int:
    """Run a program that ends with this process: the parent-death signal is kept across exec."""
    return subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", *command], stdout=output, stderr=output, check=False
    ).returncode


def _download(target: Path) -> list[str]:
    """Return the command that downloads with the host's pip and its configured index; the build needs no network."""
    return [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(target)]


def _compile(tree: Rootfs, target: Path) -> list[str]:
    pip = "PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) exec python3 -m pip"  # python3-venv brings the wheel
    options = f"--no-index --find-links /tmp/layer/downloads --no-deps --no-cache-dir --target /tmp/layer/site pyslurm=={VERSION}"
    libraries = next((tree.path / "usr/lib").glob("*/slurm-wlm")).parent.relative_to(tree.path)
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "CFLAGS": "-O0",
        "PYSLURM_BUILD_JOBS": str(JOBS),
        "DIST_EXTRA_CONFIG": "/tmp/layer/build.cfg",
        "SLURM_INCLUDE_DIR": "/tmp/bridge",
        "SLURM_LIB_DIR": f"/{libraries}",
    }
    return [
        "bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--ro-bind", str(tree.path), "/", "--proc", "/proc",
        "--dev", "/dev", "--tmpfs", "/tmp", "--bind", str(target), "/tmp/layer", "--ro-bind", str(BRIDGE), "/tmp/bridge",
        "--clearenv", *(word for key, value in variables.items() for word in ("--setenv", key, value)),
        "/bin/sh", "-c", f"{pip} install {options}",
    ]  # fmt: skip
