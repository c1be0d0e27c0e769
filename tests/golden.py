"""Views against stored text files. TIRESIAS_GOLDEN=write writes them again; look at the difference before it is committed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def compare(lines: Iterable[str], file: Path) -> None:
    shown = "".join(f"{line.rstrip()}\n" for line in lines)
    if os.environ.get("TIRESIAS_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown)
    assert shown == file.read_text(), f"after a change that is meant, TIRESIAS_GOLDEN=write writes {file}:\n{shown}"
