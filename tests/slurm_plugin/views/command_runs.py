"""`tiresias` as users start it, against a real control socket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TIRESIAS = [sys.executable, "-m", "tiresias"]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return keep | {"TIRESIAS_PATHS_RUN": str(tmp_path), "TERM": "xterm-256color"} | more


def tiresias(tmp_path: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TIRESIAS, *words], env=environment(tmp_path, **more), capture_output=True, text=True, timeout=60, check=False
    )
