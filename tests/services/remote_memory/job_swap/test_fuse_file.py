"""The served file against an array of bytes: random reads and writes by several threads, and a store that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.remote_memory.job_swap.swap_node import missing

PROGRAM = str(Path(__file__).with_name("served_file.py"))


@pytest.mark.parametrize("threads", [1, 4])
def test_every_byte_is_what_was_written(tmp_path: Path, threads: int) -> None:
    if reason := missing():
        pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, PROGRAM, str(tmp_path), str(threads), "1500"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["compared_pages"] > 1000
    assert found["wrong"] == 0
    assert found["failed_as_asked"] == 3
    assert found["beyond_the_end"] in ("OSError", "empty")
