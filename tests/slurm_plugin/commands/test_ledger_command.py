"""`tiresias ledger check` and `rebuild`: what they print, what they refuse. A dump stands in for sacct."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from tiresias.__main__ import main
from tiresias.slurm_plugin.accounting.accounted_jobs import FIELDS
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

START = int(time.time()) - 3600
RUN = [
    "7",
    "1001",
    "alice",
    "science",
    "gpu",
    "",
    START - 5,
    START,
    START + 100,
    "COMPLETED",
    "cpu=4,gres/gpu=4",
    "gpu01",
]


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "state").mkdir()
    with closing(Journal(tmp_path / "state")) as journal:
        journal.save_job(JobRow(f"7@{START - 5}", "7", 1001, START - 5.0, ended=True))
        journal.save_run(RunRow(f"7@{START - 5}", 0, START, START + 100.0, 4, "gpu01:4"))
    file = tmp_path / "tiresias.toml"
    file.write_text(f'paths.state = "{tmp_path}/state"\n')
    return str(file)


def dump(tmp_path: Path, *rows: list[object]) -> str:
    lines = ["|".join(FIELDS), *("|".join(map(str, row)) for row in rows)]
    (tmp_path / "dump").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "dump")


def check(config: str, file: str, *words: str) -> int:
    return main(["ledger", "check", "--config", config, "--from", file, *words])


def test_what_agrees(tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(config, dump(tmp_path, [*RUN])) == 0
    assert capsys.readouterr().out == "runs in both: 1; their lengths differ by 0 s at most\n"


def test_what_differs(tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = dump(tmp_path, [*RUN[:8], START + 200, *RUN[9:]], ["8", *RUN[1:]])
    assert check(config, file) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("job 7, restart 0: times differ: journal ")
    assert lines[2].startswith("job 8, restart 0: not in the journal: journal -, accounting ")
    assert check(config, file, "--json") == 1
    reported = json.loads(capsys.readouterr().out)
    assert [one["job"] for one in reported["differences"]] == ["7", "8"]
    assert reported["differences"][0]["accounting"] == [START, START + 200, 4]
    assert check(config, file, "--since", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(START + 1))) == 0


def test_a_dump_that_is_not_there(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(config, "nowhere") == 2
    assert "nowhere: No such file or directory; give a file with the output of sacct" in capsys.readouterr().err


def test_a_date_that_is_none(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        check(config, "nowhere", "--since", "soon")
    assert "'soon' is not a date; write 2026-11-01 or 2026-11-01T08:00" in capsys.readouterr().err


def test_a_damaged_and_a_missing_database(tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.truncate(tmp_path / "state" / FILE, 5000)
    assert check(config, dump(tmp_path, [*RUN])) == 1
    error = capsys.readouterr().err
    assert "damaged (database disk image is malformed); `tiresias ledger rebuild` makes it anew" in error
    assert error.count("\n") == 1
    (tmp_path / "state" / FILE).unlink()
    assert check(config, dump(tmp_path, [*RUN])) == 1
    assert "unable to open database file; is paths.state the controller's" in capsys.readouterr().err
