"""Reports of GPU use are claims of the job's owner."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tiresias.protocol import control, gpu_activity
from tiresias.protocol.gpu_activity import NO_ACTIVITY, GpuActivity

SOUND: dict[str, Any] = {"protocol": [1, 2], "restart": 2, "source": "nvml", "count": 5, "idle": [420.0, 0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = control.job_folder(tmp_path, os.getuid(), "7")
    control.make(found, "")
    return found


def test_written_and_read(tmp_path: Path, folder: Path) -> None:
    written = GpuActivity(3, "processes", 1, (12.5, 0.0))
    gpu_activity.write(folder, written)
    assert gpu_activity.read(tmp_path, os.getuid(), "7") == written
    assert gpu_activity.read(tmp_path, os.getuid() + 1, "7") == NO_ACTIVITY, "a file of another user"


@pytest.mark.parametrize(
    "changed",
    [
        {"restart": -1}, {"restart": True}, {"source": "guess"}, {"source": ["nvml"]}, {"count": "5"}, {"idle": []}, {"idle": 4},
        {"idle": [-1.0]}, {"idle": [1e300]}, {"idle": ["4"]}, {"idle": [True]}, {"idle": [1.0] * 65}, {"idle": [float("nan")]},
    ],
)  # fmt: skip
def test_an_invalid_report_is_none(tmp_path: Path, folder: Path, changed: dict[str, Any]) -> None:
    file = folder / control.ACTIVITY
    file.write_text(json.dumps(SOUND))
    assert gpu_activity.read(tmp_path, os.getuid(), "7") == GpuActivity(2, "nvml", 5, (420.0, 0.0))
    file.write_text(json.dumps(SOUND | changed))
    assert gpu_activity.read(tmp_path, os.getuid(), "7") == NO_ACTIVITY
