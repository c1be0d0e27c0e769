"""The data of others beside the checkout: measurements and oracles. Tests that need a file are skipped where it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("TIRESIAS_TRACES", Path(__file__).parents[2] / "shared" / "data"))


def shared_data(name: str) -> Path:
    """Return the path of a file; skips the test without it."""
    file = FOLDER / name
    if not file.exists():
        pytest.skip(f"{name} is not in {FOLDER}")
    return file
