"""A virtual environment with the built wheel and only the dependencies that it names; nothing is downloaded."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = "import sys; from hatchling.build import build_{kind}; print(build_{kind}(sys.argv[1]))"


def build(kind: str, source: Path, out: Path, **environment: str) -> Path:
    """The wheel or sdist of that folder, with libraries that are compiled quickly."""
    out.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BUILD.format(kind=kind), str(out)]
    env = {**os.environ, "CFLAGS": "-O0", **environment}
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.split()[-1]


def build_once(base: Path) -> Path:
    """Return this checkout's wheel, built by the first process that calls this with the same folder."""
    with (base / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = [*(base / "wheel").glob("*.whl")]
        return found[0] if found else build("wheel", ROOT, base / "wheel")


def make(folder: Path, wheel: Path) -> Path:
    """The environment's folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    words = ["--python", str(folder / "bin/python"), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=120)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in sorted(requirements("slurm-tiresias")):
        _link(name, site)
    return folder


def requirements(distribution: str) -> set[str]:
    """Names of what it needs without extras, with what that needs, as far as it is installed here."""
    found: set[str] = set()
    pending = [distribution]
    while pending:
        for line in importlib.metadata.requires(pending.pop()) or []:
            name = re.split(r"[^A-Za-z0-9._-]", line)[0]
            if "extra ==" not in line and name not in found and _is_here(name):
                found.add(name)
                pending.append(name)
    return found


def _is_here(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _link(name: str, site: Path) -> None:
    for top in _tops(name):
        (site / top.name).symlink_to(top)


def _tops(name: str) -> Iterator[Path]:
    """Its entries in the folder that it is installed in."""
    distribution = importlib.metadata.distribution(name)
    home = Path(str(distribution.locate_file("")))
    names = {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}
    return (home / each for each in sorted(names))
