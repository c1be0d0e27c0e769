"""Reports become measurements in the journal and estimates of ends and sizes; hostile ones become neither. A real journal."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tiresias.protocol import control, progress
from tiresias.protocol.convergence import Convergence
from tiresias.protocol.progress import Progress
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.observation.job_estimates import JobEstimates
from tiresias.slurm_plugin.observation.measured_progress import LOSSES_KEPT, MeasuredProgress
from tiresias.slurm_plugin.observation.progress_reports import ProgressReports
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import RunRow
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
SCOPE = Scope(frozenset({"gpu"}))
START = 1000
BENCH = Path(__file__).parents[3] / "bench/predicted_ends.py"


class Site:
    """One elastic job, its program's reports, and a controller that can be started anew."""

    def __init__(self, root: Path, job: SlurmJob) -> None:
        self._root, self.job, self.now = root, job, float(START)
        self.folder = control.job_folder(root / "control", job.uid, job.id)
        control.make(self.folder, "")
        self.journal = Journal(root / "state")
        self._begin()

    def _begin(self) -> None:
        self.ledger = Ledger(self.journal, SCOPE)
        self.reports = ProgressReports(self._root / "control")
        self.measured = MeasuredProgress(self.ledger)
        self.estimates = JobEstimates(self.ledger, self.measured)
        self._apply()

    def _apply(self) -> None:
        self.ledger.apply(SlurmSnapshot(self.now, (self.job,), ()))

    def restart_controller(self) -> None:
        self.journal.close()
        self.journal = Journal(self._root / "state")
        self._begin()

    def resize(self, gpus: int, after: float = 60.0) -> None:
        """The job runs again with other GPUs."""
        ended = int(self.now)
        self.now += after
        shares = tuple(NodeShare(f"gpu{at + 1:02}", min(gpus - 4 * at, 4), 4, 400) for at in range(-(-gpus // 4)))
        start = int(self.now)
        self.job = replace(
            self.job,
            gpus=gpus,
            tasks=gpus,
            restarts=self.job.restarts + 1,
            submit_time=ended,
            start_time=start,
            shares=shares,
        )
        self._apply()

    def report(self, step: int, total: int = -1, loss: float | None = None, samples: int = -1, after: float = 100.0,
               until: Convergence | None = None) -> None:  # fmt: skip
        progress.write(self.folder, Progress(self.job.restarts, step, total, loss, samples, until))
        self.cycle(after)

    def cycle(self, after: float = 100.0) -> None:
        self.now += after
        row = self.ledger.jobs[self.job.id]
        self.estimates.meet(self.job, row, 4)
        if found := self.reports.follow(self.job, row, self.ledger.runs_of(row), self.now):
            self.measured.take(row, self.job.restarts, found)
            self.estimates.take(row, self.job.restarts, found.pace, self.now)
        self.measured.write(self.now)
        self.estimates.learn(0.0, self.now)

    def runs(self) -> list[RunRow]:
        return self.journal.runs(self.ledger.jobs[self.job.id].key)

    def losses(self) -> list[tuple[float, float]]:
        found = self.journal.progress.losses(self.ledger.jobs[self.job.id].key).points
        return list(zip(found.steps.tolist(), found.losses.tolist(), strict=True))


@pytest.fixture
def site(tmp_path: Path, running: Make, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr("tiresias.slurm_plugin.observation.job_estimates.LEARN_S", 0.0)
    made = Site(tmp_path, replace(running(START), uid=os.getuid(), elastic="1-16"))
    assert made.ledger.jobs["1"].elastic == "1-16"
    return made


def test_a_claim_gives_the_end_with_its_interval(site: Site) -> None:
    for at in range(6):
        site.report(100 * at, 2000, samples=6400 * at)
    end = site.estimates.ends["1"]
    assert end.at == pytest.approx(site.now + 1500.0, rel=0.01)
    assert end.low < end.at < end.high < site.now + 1800.0
    [run] = site.runs()
    assert run.timed == pytest.approx(1.0, rel=0.06)
    assert run.samples == 64.0
    assert not site.estimates.sizes, "one size does not show how a job scales"


def test_two_measured_sizes_give_the_time_with_the_others(site: Site) -> None:
    for at in range(6):
        site.report(100 * at, 2000)
    site.resize(8)
    for at in range(6, 12):
        site.report(100 * at, 2000, after=60.0)
    sizes = site.estimates.sizes["1"]
    assert sizes.seconds.shape == (1, 17)
    assert sizes.seconds[0, 8] == pytest.approx(900.0 * 0.6, rel=0.1)
    assert sizes.seconds[0, 4] == pytest.approx(900.0, rel=0.1)
    assert sizes.seconds[0, 1] > sizes.seconds[0, 2] > sizes.seconds[0, 4]
    assert sizes.uncertain, "two sizes are few"


def test_measured_sizes_and_losses_survive_a_restart_of_the_controller(site: Site) -> None:
    step = 0
    for gpus in (4, 8, 2, 16):
        if site.job.gpus != gpus:
            site.resize(gpus)
        for _ in range(5):
            step += 100
            site.report(step, 10_000, loss=5.0 / (1.0 + step / 300), after=400.0 / gpus)
    before, losses = site.estimates.sizes["1"], site.losses()
    assert len(losses) == 20
    assert not before.uncertain
    site.restart_controller()
    assert "1" not in site.estimates.sizes
    site.cycle()
    after = site.estimates.sizes["1"]
    assert after.seconds == pytest.approx(before.seconds, rel=0.1, nan_ok=True)
    assert site.losses() == losses
    assert [run.gpus for run in site.runs() if run.timed] == [4, 8, 2, 16]


def test_a_run_has_what_was_expected_of_its_size_beside_what_was_measured(site: Site) -> None:
    for at in range(5):
        site.report(100 * at, 5000)
    site.resize(8)
    for at in range(5, 10):
        site.report(100 * at, 5000, after=60.0)
    site.resize(2)
    for at in range(10, 15):
        site.report(100 * at, 5000, after=200.0)
    assert [run.expected is None for run in site.runs()] == [True, True, False]
    third = site.runs()[2]
    assert third.expected == pytest.approx(1.9, rel=0.2)
    assert third.timed == pytest.approx(2.0, rel=0.06)


def test_a_job_that_shrinks_is_not_late_for_what_it_claimed_with_more_gpus(site: Site) -> None:
    for at in range(6):
        site.report(100 * at, 2000)
    site.resize(1)
    step = 500
    for _ in range(40):
        step += 25
        site.report(step, 2000)
    row = site.ledger.jobs["1"]
    assert row.earliest_at is not None
    assert row.earliest_left is not None
    assert row.earliest_at + row.earliest_left == pytest.approx(600.0 + 4.0 * 1500.0, rel=0.05)
    assert site.estimates.ends["1"].at == pytest.approx(site.now + 4.0 * (2000 - step), rel=0.05)


def test_without_a_number_of_steps_the_loss_curve_and_the_stated_loss_give_the_end(site: Site) -> None:
    for at in range(1, 41):
        site.report(100 * at, loss=1.0 / (0.001 * 100 * at + 0.5) + 0.1, until=Convergence(0.2))
    assert site.ledger.jobs["1"].converges == '{"loss": 0.2}'
    end = site.estimates.ends["1"]  # of step 9,500, a second a step
    assert end.low <= site.now + 5500.0 <= end.high
    assert end.at > site.now
    site.restart_controller()
    site.report(4100, loss=1.0 / (4.1 + 0.5) + 0.1, until=Convergence(0.2))
    assert "1" in site.estimates.ends


HOSTILE = [
    [("NaN", step) for step in range(9)],
    [(json.dumps(-1.5), step) for step in range(9)],
    [("1e999", step) for step in range(9)],
    [(json.dumps(2.0**step), step) for step in range(9)],  # a loss that rises
    [("1.0", 7) for _ in range(9)],  # a speed of zero
    [("1.0", 10**14 * step) for step in range(9)],  # an infinite speed
    [("1.0", 900 - 100 * step) for step in range(9)],  # steps that go backwards
]


@pytest.mark.parametrize("reports", HOSTILE)
def test_hostile_reports_have_neither_estimates_that_are_no_numbers_nor_costs(
    site: Site, reports: list[tuple[str, int]]
) -> None:
    until = '{"loss": 0.5}'
    for total in ("null", "5", "9" * 400):
        for loss, step in reports:
            text = f'{{"restart": 0, "step": {step}, "total": {total}, "loss": {loss}, "until": {until}}}'
            (site.folder / control.PROGRESS).write_text(text)
            site.cycle()
    for end in site.estimates.ends.values():
        assert end.low <= end.at <= end.high
        assert end.low >= site.now - 1000.0
        assert not any(math.isnan(moment) for moment in end)
    for sizes in site.estimates.sizes.values():
        assert (sizes.seconds[0, 1:] >= 0.0).all()
    assert all(math.isfinite(loss) and loss >= 0.0 for _, loss in site.losses())
    assert all(run.timed is None or run.timed >= 1e-6 for run in site.runs())


def test_a_loss_that_rises_is_not_expected_to_reach_a_lower_one_within_the_interval(site: Site) -> None:
    for at in range(1, 30):
        site.report(100 * at, loss=0.5 + 0.01 * at, until=Convergence(0.3))
    assert site.estimates.ends["1"].high == math.inf


def test_the_journal_and_memory_are_bounded_however_much_a_job_reports(site: Site) -> None:
    statements: list[str] = []
    for at in range(3000):
        if at == 2000:
            site.journal._db.set_trace_callback(statements.append)
        site.report(at, 10_000, loss=3.0 - at / 2000, after=7.0)
    assert len(site.losses()) <= LOSSES_KEPT
    writes = sum("loss" in one and one.startswith("insert") for one in statements)
    assert writes <= 1000 * 7.0 / 60.0 * 1.2 + LOSSES_KEPT / 2, "a report is read once a minute"
    assert np.isfinite(site.measured.history(site.ledger.jobs["1"].key).points().losses).all()


def test_losses_of_ended_jobs_are_forgotten_after_a_day(site: Site) -> None:
    for at in range(5):
        site.report(100 * at, 2000, loss=1.0)
    key = site.ledger.jobs["1"].key
    site.ledger.apply(SlurmSnapshot(site.now, (), ()))
    for hours, left in ((1, True), (23, True), (26, False)):
        site.measured.write(site.now + 3600.0 * hours)
        assert bool(len(site.journal.progress.losses(key).points.steps)) == left


def test_a_job_is_sampled_once_it_reports_steps(site: Site) -> None:
    site.cycle()
    assert site.estimates.sizes_timed(site.ledger.jobs["1"]) is None, "its program may report nothing"
    site.report(1, 2000)
    assert site.estimates.sizes_timed(site.ledger.jobs["1"]) == ()
    for at in range(1, 6):
        site.report(100 * at, 2000)
    site.resize(8)
    site.report(700, 2000, after=1.0)
    assert site.estimates.sizes_timed(site.ledger.jobs["1"]) == ((0, 4),)
    site.report(800, 2000)
    assert site.estimates.sizes_timed(site.ledger.jobs["1"]) == ((0, 4), (0, 8))


def test_the_journal_shows_how_well_ends_were_predicted(site: Site, tmp_path: Path) -> None:
    for at in range(11):
        site.report(100 * at, 2000)
    site.resize(8)
    for at in range(11, 21):
        site.report(100 * at, 2000, after=50.0)
    site.ledger.apply(SlurmSnapshot(site.now, (), ()))
    command = [sys.executable, str(BENCH), "--data", str(tmp_path / "none"), "--journal", str(site.journal.path)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert set(found["skipped"]) == {"nanogpt", "mlperf", "adaptdl_curves", "dl2", "adaptdl"}
    claim = found[f"journal {site.journal.path}"]["claim"]
    assert [claim[part]["jobs"] for part in ("25%", "50%", "75%")] == [1, 1, 1]
    assert claim["25%"]["bias"] > 0.1, "it became twice as fast later"
    assert claim["75%"]["error"] < 0.05
    assert claim["75%"]["covered"] == 1.0
