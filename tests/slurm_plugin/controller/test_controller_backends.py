"""A job is started, preempted and resumed, with each back end on each release of Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre, with_backend

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


@pytest.fixture(params=["pyslurm@forky", "commands@forky", "commands@trixie", "commands@bookworm"])
def selected(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    yield from with_backend(centre_of, request.param)


def test_start_preempt_finish(selected: Centre) -> None:
    large = selected.train(gpus=16, seconds=4, until_preempted=True)
    selected.wait_until_preemptable(large)
    small = selected.submit(command="sleep 1", user="bob")
    selected.wait_for_state(small, "COMPLETED")
    assert selected.wait_for_state(large, "COMPLETED")["Restarts"] == "1", "\n".join(selected.last_state([large]))
    assert "done at step 80" in selected.output(large)
    assert [len(selected.reasons(large, action)) for action in ("start", "running", "preempt", "parked")] == [
        2,
        2,
        1,
        1,
    ]
