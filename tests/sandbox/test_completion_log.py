"""Slurm's completion log, with records as slurmctld writes them."""

from __future__ import annotations

from pathlib import Path

from tiresias.sandbox import completion_log

FIRST = (
    "JobId=12 UserId=bob(2002) Name=a=b JobState=COMPLETED StartTime=2026-11-21T03:16:03 EndTime=2026-11-21T03:16:08"
)


def test_a_record_that_slurm_cut_does_not_hide_the_next_one(tmp_path: Path) -> None:
    """Slurm 22.05 writes 1,023 bytes of a record at most, without its end of line."""
    log = tmp_path / "jobcomp.log"
    cut = f"JobId=11 UserId=bob(2002) Name={'x' * 1023}"[:1023]
    log.write_text(f"{cut}{FIRST} \n")
    first, second = completion_log.records(log)
    assert (first["JobId"], "EndTime" in first) == ("11", False)
    assert (second["JobId"], second["Name"], second["JobState"]) == ("12", "a=b", "COMPLETED")
    assert completion_log.epoch(second["EndTime"]) - completion_log.epoch(second["StartTime"]) == 5


def test_without_a_log_there_is_no_record(tmp_path: Path) -> None:
    assert completion_log.records(tmp_path / "none") == []
