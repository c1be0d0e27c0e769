"""Words of users outside of a running controller: in errors, and in lists that it has to read."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiresias.errors import one_line
from tiresias.scheduler.host_lists import hosts
from tiresias.slurm_plugin.backends import parse

LONGEST = 64 * 1024  # what sbatch lets users write into a list of nodes


def test_an_error_moves_no_cursor(tmp_path: Path) -> None:
    (tmp_path / "\x1b[2J\n\u202eowned.net").write_text("no recording")
    done = subprocess.run(
        [sys.executable, "-m", "tiresias", "profile", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("\n")
    assert done.stderr[:-1].isprintable(), ascii(done.stderr)


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "a\nb", "a\rb", "a\u202eb", "a\x00b", "a\x9bb", "a\ud800b"])
def test_one_line(text: str) -> None:
    assert one_line(text).isprintable()
    assert one_line(text)[0] + one_line(text)[-1] == "ab"


@pytest.mark.parametrize("unit", ["gpu01,", "gpu01,(", "[", "[,", "](", "n[0-1],", "gpu:1,"])
def test_long_lists_take_no_time(unit: str) -> None:
    text = (unit * LONGEST)[:LONGEST]
    began = time.process_time()
    hosts(text)
    parse.gpus(text)
    assert time.process_time() - began < 3  # quadratic, it takes minutes
