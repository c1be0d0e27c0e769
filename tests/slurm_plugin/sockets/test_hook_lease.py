"""The lease for job_submit.lua, and a folder into which it cannot be written."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.config import Config, Exempt, Paths
from tiresias.slurm_plugin.sockets.hook_lease import HookLease
from tiresias.slurm_plugin.sockets.notifier import Notifier


def lease_in(folder: Path, mode: str = "exact") -> HookLease:
    exempt = Exempt(users=("ada", "eve"), accounts=("deadline",))
    return HookLease(Config(mode=mode, partitions=("gpu", "big"), exempt=exempt, paths=Paths(run=folder)), "gpu")


def test_the_lease_has_its_end_and_the_values_for_the_hook(tmp_path: Path) -> None:
    lease = lease_in(tmp_path)
    before = time.time()
    lease.renew()
    until, *terms = (tmp_path / "lease").read_text().splitlines()
    assert before + 89 <= int(until) <= time.time() + 90
    assert terms == ["gpu,big", "gpu", "97", "ada,eve", "deadline"]
    lease.end()
    lease.end()
    assert list(tmp_path.iterdir()) == []
    assert lease.alarms == []


@pytest.mark.parametrize("mode", ["shadow", "assist"])
def test_where_slurm_starts_the_jobs_there_is_no_lease(tmp_path: Path, mode: str) -> None:
    lease_in(tmp_path).renew()
    lease_in(tmp_path, mode=mode).renew()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_alarm_and_the_last_lease_stays_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lease = lease_in(tmp_path)
    lease.renew()
    last = (tmp_path / "lease").read_text()
    (tmp_path / ".lease").symlink_to("/dev/full")
    with caplog.at_level(logging.WARNING, "tiresias"):
        lease.renew()
        lease.renew()
    assert (tmp_path / "lease").read_text() == last
    assert len(caplog.messages) == 1, "it is logged once"
    assert lease.alarms == caplog.messages
    assert lease.alarms[0].startswith(
        f"run folder {tmp_path}: No space left on device; job_submit.lua holds no new jobs"
    )
    (tmp_path / ".lease").unlink()
    lease.renew()
    assert lease.alarms == []


def test_a_notifier_that_cannot_be_made_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "primary").mkdir()
    with pytest.raises(TiresiasError, match=r"cannot make .*/primary: Is a directory: check that paths.run"):
        Notifier(tmp_path / "primary")
