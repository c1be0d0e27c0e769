"""Donors that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.remote_memory.donors import DonorProcess

StartDonor = Callable[..., DonorProcess]


@pytest.fixture
def start_donor(tmp_path: Path) -> Iterator[StartDonor]:
    donors: list[DonorProcess] = []

    def start(**options: object) -> DonorProcess:
        donors.append(DonorProcess(tmp_path / f"donor{len(donors)}", **options))  # type: ignore[arg-type]
        return donors[-1]

    yield start
    for donor in donors:
        donor.kill()
