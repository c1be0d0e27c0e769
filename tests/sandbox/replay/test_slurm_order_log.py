"""Slurm's order, read from samples and logs that a real Slurm 26.05 wrote."""

from __future__ import annotations

from pathlib import Path

from tiresias.sandbox.replay.slurm_order_log import (
    LoggedPreemption,
    LoggedStart,
    SlurmctldLog,
    backfilled,
    read_samples,
)

LOG = """\
[2026-11-26T10:23:51.519] _slurm_rpc_submit_batch_job: JobId=1 SLUID=s9QXM8BP436Z00 InitPrio=1 usec=904
[2026-11-26T10:23:53.555] _slurm_rpc_submit_batch_job: JobId=3 SLUID=s9QXM8BP456K00 InitPrio=10000 usec=749
[2026-11-26T10:23:53.589] preempted JobId=1 has been requeued to reclaim resources for JobId=3
[2026-11-26T10:23:53.626] Requeuing JobId=1
[2026-11-26T10:23:53.626] sched: Allocate JobId=3 NodeList=gpu01 #CPUs=4 Partition=gpu
[2026-11-26T10:24:23.930] _job_complete: JobId=3 done
[2026-11-26T10:24:24.006] sched: Allocate JobId=1 NodeList=gpu[01-02] #CPUs=8 Partition=gpu
"""
SECOND = 1795688631.0  # 2026-11-26T10:23:51
SAMPLES = """\
1795688631.5
1|Resources|10000|2026-11-26T10:23:51
2|JobHeldAdmin|0|2026-11-26T10:23:51
4|ReqNodeNotAvail, UnavailableNodes:gpu[01-04]|5|2026-11-26T10:23:51
5|Dependency|7|2026-11-26T10:23:51
1795688631.6

1795688632.6
1795688632.7

1795688633.7
failed
1795688643.7

1795688644.8
1|Reso"""


def test_a_log_has_submissions_starts_and_preemptions() -> None:
    launched = {"1": [SECOND + 0.6, SECOND + 33.1], "3": [SECOND + 2.7]}
    log = SlurmctldLog.parsed(LOG, launched)
    assert log.submitted == {"1": (-1.0, SECOND + 0.519, 1), "3": (-10000.0, SECOND + 2.555, 3)}
    assert log.preemptions == [LoggedPreemption(SECOND + 2.589, "1", "requeued", "3")]
    assert log.requeued == [(SECOND + 2.626, "1")]


def test_a_start_that_only_slurmd_logs_is_one_of_the_backfill_scheduler() -> None:
    launched = {"1": [SECOND + 0.6, SECOND + 33.1], "3": [SECOND + 2.7]}
    assert SlurmctldLog.parsed(LOG, launched).starts == [
        LoggedStart(SECOND + 0.6, "1", by_backfill=True),
        LoggedStart(SECOND + 2.626, "3", by_backfill=False),
        LoggedStart(SECOND + 33.006, "1", by_backfill=False),
    ]


def test_samples_have_the_jobs_that_only_resources_and_earlier_jobs_keep_waiting(tmp_path: Path) -> None:
    file = tmp_path / "samples"
    file.write_text(SAMPLES)
    samples = read_samples(file)
    assert [(round(sample.begin - SECOND, 3), sorted(sample.ranks)) for sample in samples] == [
        (0.5, ["1", "4"]),
        (1.6, []),
    ]
    assert samples[0].ranks["1"] == (-10000.0, SECOND, 1)


def test_no_samples_without_a_file(tmp_path: Path) -> None:
    assert read_samples(tmp_path / "missing") == []


def test_sdiag_has_the_number_of_backfilled_jobs() -> None:
    assert backfilled("Backfilling stats\n\tTotal backfilled jobs (since last slurm start): 12\n") == 12
    assert backfilled("") == 0
