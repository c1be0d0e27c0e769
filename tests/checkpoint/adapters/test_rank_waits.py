"""The adapters report the own work of each rank: of unmodified programs of docs/examples, the slow rank is found."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoint.adapters.test_examples import EXAMPLES, MODULES, require
from tests.lazily import imported
from tiresias.protocol import control, rank_files
from tiresias.scheduler.estimates.stragglers import stragglers

torch = imported("torch")

STRAGGLING = Path(__file__).with_name("straggling.py")
RANKS, SLOW, FAST_S, SLOW_S = 3, 1, 0.02, 0.3
EQUAL_S = 0.2  # of equal ranks: so much more than what a busy machine adds
pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.timeout(600)]


def own_work(job: Any) -> list[float]:
    """Return what each rank has reported; nan: nothing."""
    found = [math.nan] * RANKS
    for file in (job.control / control.RANKS).iterdir():
        report = json.loads(file.read_text() or "{}")
        found[report["rank"]] = report.get(rank_files.OWN_WORK, math.nan)
    return found


def wait_for_own_work(job: Any) -> list[float]:
    deadline = time.monotonic() + 120.0
    while not np.isfinite(found := own_work(job)).all():
        assert all(process.poll() is None for process in job.processes), job.log()
        assert time.monotonic() < deadline, f"{found}\n{job.log()}"
        time.sleep(0.1)
    return found


@pytest.mark.long
@pytest.mark.xdist_group("examples-torch")
def test_equal_ranks_of_an_unmodified_program_are_no_stragglers(pair: Any, nursery_of: Any) -> None:
    program = [str(STRAGGLING), "-1", str(EQUAL_S), str(SLOW_S), str(EXAMPLES / "elastic.py"), "100000"]
    _, job = pair([sys.executable, *program], RANKS, nursery=nursery_of(*MODULES["torch"]))
    job.start()
    try:
        found = wait_for_own_work(job)
    finally:
        job.kill()
    assert min(found) >= EQUAL_S
    assert not stragglers(np.array(found)).slow.any(), found


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        pytest.param("torch", "elastic", marks=pytest.mark.xdist_group("examples-torch")),
        pytest.param("torch", "elastic_fsdp", marks=[pytest.mark.xdist_group("examples-torch"), pytest.mark.long]),
        pytest.param(
            "lightning", "elastic_lightning", marks=[pytest.mark.xdist_group("examples-lightning"), pytest.mark.long]
        ),
        pytest.param(
            "transformers",
            "elastic_transformers",
            marks=[pytest.mark.xdist_group("examples-transformers"), pytest.mark.long],
        ),
    ],
)
def test_the_slow_rank_of_an_unmodified_program_is_found(pair: Any, nursery_of: Any, framework: str, name: str) -> None:
    require(framework)
    program = [str(STRAGGLING), str(SLOW), str(FAST_S), str(SLOW_S), str(EXAMPLES / f"{name}.py"), "100000"]
    _, job = pair([sys.executable, *program], RANKS, nursery=nursery_of(*MODULES[framework]))
    job.start()
    try:
        found = wait_for_own_work(job)
    finally:
        job.kill()
    result = stragglers(np.array(found))
    assert np.flatnonzero(result.slow).tolist() == [SLOW], found
    assert found[SLOW] >= 0.8 * SLOW_S, "on a GPU a wait is counted a step later than it ends"
    assert result.gap > SLOW_S / 2
