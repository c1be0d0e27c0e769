"""Start modules of this installation from a user's job, independent of the user's folder and PYTHONPATH."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import tiresias

LIBRARY = Path(tiresias.__file__).absolute().parent.parent
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__')"
)


def command(module: str, *words: str) -> list[str]:
    """Return the command line that runs a module of this installation."""
    return [sys.executable, "-I", "-c", _START, str(LIBRARY), module, *words]


def path() -> list[str]:
    """sys.path without the user's folder and PYTHONPATH."""
    user = {sys.path[0] if sys.path else "", "", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    return [str(LIBRARY), *(folder for folder in sys.path[1:] if folder not in user)]
