"""Builds packages from the checkout, and prints their files.

    python etc/packages/build.py dist deb         dist/slurm-tiresias_0.1.0_amd64.deb
    python etc/packages/build.py dist deb rpm     dist/slurm-tiresias-0.1.0-1.x86_64.rpm, too

The requirements are in the modules: stage.py for all, deb.py, rpm.py.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import deb
import rpm
import stage

KINDS = {"deb": deb, "rpm": rpm}


def main() -> None:
    out, kinds = Path(sys.argv[1]), [KINDS[name] for name in sys.argv[2:]]
    for kind in kinds:
        if not shutil.which(kind.TOOL):
            sys.exit(f"{kind.TOOL} is not here: {kind.__doc__}")
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="packages-") as folder:
        made = Path(folder) / "made"
        made.mkdir()
        stage.make(made)
        for name, kind in zip(sys.argv[2:], kinds, strict=True):
            place = Path(folder) / name
            place.mkdir()
            print(kind.package(place, made, out))


if __name__ == "__main__":
    main()
