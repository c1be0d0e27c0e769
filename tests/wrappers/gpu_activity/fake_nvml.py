"""Compile fake_nvml.c: a library in place of NVIDIA's, which no machine without a GPU has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tiresias.wrappers.gpu_activity.nvml_meter import LIBRARY

SOURCE = Path(__file__).with_suffix(".c")


def compile_into(folder: Path) -> Path:
    """Return the compiled library in the folder."""
    compiler = os.environ.get("CC", "cc").split()
    if not shutil.which(compiler[0]):
        pytest.skip("no C compiler")
    folder.mkdir(exist_ok=True)
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", folder / LIBRARY, SOURCE], check=True, timeout=60)
    return folder / LIBRARY
