"""Start, preempt, finish: the whole walk over each back end on each Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


@pytest.fixture(params=["pyslurm@forky", "commands@forky", "commands@trixie", "commands@bookworm"])
def walk(request: pytest.FixtureRequest, centre_of: Any) -> Iterator[Any]:
    backend, suite = request.param.split("@")
    centre = centre_of(suite)
    centre.restart(backend=backend)
    yield centre
    centre.clean()
    centre.stop()


def test_start_preempt_finish(walk: Any) -> None:
    whale = walk.train(gpus=16, seconds=4)
    walk.trains(whale)
    small = walk.submit(command="sleep 1", user="bob")
    walk.reaches(small, "COMPLETED")
    assert walk.reaches(whale, "COMPLETED")["Restarts"] == "1", "\n".join(walk.last_state([whale]))
    assert "done at step 80" in walk.output(whale)
    assert [len(walk.said(whale, action)) for action in ("start", "running", "preempt", "parked")] == [2, 2, 1, 1]
