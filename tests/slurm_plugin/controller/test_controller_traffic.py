"""The traffic profile of the first job of a kind is used for the next job of that kind."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.profiler.build import NET, libraries

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
EXCHANGE = "/opt/tiresias/tests/wrappers/exchange.py"
TENSORS = "70000 900 120000 400 5000 300"


def test_the_next_job_of_a_kind_is_explained_by_the_first(centre: Centre) -> None:
    place = centre.cluster.shared / "tiresias" / "lib"
    place.mkdir(exist_ok=True)
    shutil.copy(libraries().net, place / NET)
    env = {"TIRESIAS_PROFILE_LIBRARIES": "/shared/tiresias/lib"}
    train = f"tsrun python3 {EXCHANGE} /shared/out/address-$SLURM_JOB_ID 100000 0.02 {TENSORS}"

    def submit(*options: str) -> str:
        return str(centre.submit("--job-name=skewed", *options, command=train, gpus=3, by="tsbatch", env=env))

    def traffic(job: str) -> dict[str, Any]:
        return centre.explain(job).get("job", {}).get("profile") or {}

    first, second, third = submit(), submit("--begin=now+1hour"), submit("--job-name=another", "--begin=now+1hour")
    centre.wait_until(lambda: traffic(first), f"there is no profile of job {first}")
    assert traffic(second) == traffic(first)
    assert (traffic(first)["decision"], traffic(first)["job"]) == ("consolidate", first)
    assert traffic(first)["skew"] == pytest.approx(120000 / 196600, abs=0.01)
    assert not traffic(third)
    shown = centre.command("explain", second).stdout
    assert "consolidate: its largest tensor is 61.0% of the model" in shown
    for job in (first, second, third):
        centre.cancel(job)
