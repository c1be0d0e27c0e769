"""Operations on jobs that do not exist, and the version, the same through both back ends."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.backends.conftest import Site
from tiresias.slurm_plugin.backends.interface import NoSuchJob, RequestChange

pytestmark = pytest.mark.sandbox


OPERATIONS: list[tuple[str | RequestChange, ...]] = [
    ("hold",),
    ("release",),
    ("pin", RequestChange(required=("gpu01",))),
    ("unpin", RequestChange(nodes=(1, 1))),
    ("signal", "USR2"),
    ("requeue",),
    ("job",),
]
UNKNOWN = [
    "999999",
    "999999_1",
    "999999+1",
    "1; id",
    "",
    "-1",
    "0",
    "all",
    "0x10",
    "1\n2",
    "\N{ARABIC-INDIC DIGIT THREE}",
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation[0])
def test_jobs_that_do_not_exist(site: Site, operation: tuple[str | RequestChange, ...]) -> None:
    name, *arguments = operation
    for job_id in UNKNOWN:
        with pytest.raises(NoSuchJob, match=r"^job "):
            getattr(site.backend, str(name))(job_id, *arguments)


def test_version(site: Site) -> None:
    assert site.backend.version() == site.cluster.slurm_version
