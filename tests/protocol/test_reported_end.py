"""The end of its run that a supervisor reports: a claim of the job's owner, read from JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tiresias.protocol import control


def reported(root: Path, end: str) -> float | None:
    """Return what the controller reads where supervisor.json has this text as its end."""
    folder = control.job_folder(root, os.getuid(), "7")
    folder.mkdir(parents=True)
    (folder / control.SUPERVISOR).write_text('{"restart": 0, "end": ' + end + "}")
    return control.report(root, os.getuid(), "7").end


@pytest.mark.parametrize(
    ("end", "found"), [("1795904854", 1795904854.0), ("1795904854.5", 1795904854.5), ("0", float("inf"))]
)
def test_an_end_and_no_limit(tmp_path: Path, end: str, found: float) -> None:
    assert reported(tmp_path, end) == found


@pytest.mark.parametrize(
    "end", ["-1", "NaN", "Infinity", "-Infinity", "1e300", "9" * 4000, '"0"', "null", "false", "[0]", "{}"]
)
def test_what_is_no_end_counts_as_not_known(tmp_path: Path, end: str) -> None:
    assert reported(tmp_path, end) is None


def test_a_supervisor_that_reports_none(tmp_path: Path) -> None:
    """Of an earlier release."""
    folder = control.job_folder(tmp_path, os.getuid(), "7")
    folder.mkdir(parents=True)
    (folder / control.SUPERVISOR).write_text(json.dumps({"restart": 0, "state": "running"}))
    assert control.report(tmp_path, os.getuid(), "7").end is None
