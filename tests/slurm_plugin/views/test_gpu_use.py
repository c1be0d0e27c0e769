"""The use of a job's GPUs in words."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tiresias.protocol.published_job import PublishedJob
from tiresias.slurm_plugin.views.gpu_use import gpu_use

MEASURED = "(measured by NVML)"


@pytest.mark.parametrize(
    ("idle", "stage", "words"),
    [
        ([], "none", ""),
        ([9, 59], "none", f"in use {MEASURED}"),
        ([0, 3900], "none", f"1 of 2 unused for 1h05m {MEASURED}"),
        ([3960, 3900], "shown", f"unused for 1h05m {MEASURED}"),
        ([3900], "warned", f"unused for 1h05m {MEASURED}; its owner is warned"),
        ([3900], "demoted", f"unused for 1h05m {MEASURED}; ranked after all other jobs until it uses them"),
    ],
)
def test_words(idle: list[int], stage: str, words: str) -> None:
    job: dict[str, Any] = {"unused_gpus": idle, "gpu_use": stage, "gpu_use_source": "nvml"}
    assert gpu_use(cast(PublishedJob, job)) == words


def test_a_job_that_reports_nothing() -> None:
    assert gpu_use(cast(PublishedJob, {})) == ""
