"""The Debian package. Needs dpkg-deb."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import stage

from tiresias import __version__

CONTROL = stage.ROOT / "etc/deb"
TOOL = "dpkg-deb"
PLACES = stage.Places("/usr/bin/python3", "usr/lib/python3/dist-packages", "usr/share/zsh/vendor-completions")


def package(folder: Path, made: Path, out: Path) -> Path:
    """The file. folder: an empty one; made: what stage.make built."""
    tree = folder / "tree"
    stage.lay(tree, PLACES, made)
    _control(tree)
    return _wrap(tree, out)


def architecture() -> str:
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def _control(tree: Path) -> None:
    text = (CONTROL / "control").read_text().format(version=__version__, architecture=architecture())
    stage.write(tree / "DEBIAN/control", text)
    stage.write(tree / "DEBIAN/conffiles", "".join(f"/etc/tiresias/{name}\n" for name in stage.CONFIGURATION))
    for name in ("postinst", "prerm", "postrm"):
        stage.write(tree / "DEBIAN" / name, (CONTROL / name).read_text(), 0o755)


def _wrap(tree: Path, out: Path) -> Path:
    file = out / f"slurm-tiresias_{__version__}_{architecture()}.deb"
    words = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(file)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": stage.source_date()}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
    return file
