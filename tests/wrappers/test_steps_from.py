"""`tsbatch --steps-from`: the option, the pattern, and the process that follows the output of a job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.polling import pauses
from tiresias.errors import UsageError
from tiresias.protocol import control, progress
from tiresias.protocol.progress import Progress
from tiresias.wrappers import isolated, printed_steps, sbatch_options, steps_follower
from tiresias.wrappers.steps_follower import NEWEST, Follower, Output, TooSlow

SIMPLE = r"step (\d+)/(\d+)"
HOSTILE = r"(a+)+$"


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (SIMPLE, "INFO step 12/500 loss 0.3", (12, 500)),
        (SIMPLE, "epoch 1", None),
        (r"step (\d+)", "step 12/500", (12, -1)),
        (r"of (?P<total>\d+): (?P<step>\d+)", "of 500: 12", (12, 500)),
        (r"(?P<step>\d+) (\w+)", "12 500", (12, -1)),
        (r"of (?P<total>\d+): (\d+)", "of 500: 12", (12, 500)),
        (r"(?P<epoch>\d+) (\d+)", "12 500", (12, 500)),
        (r"([\d,]+) / ([\d,]+)", "1,200 / 5,000", (1200, 5000)),
        (r"(\d+)%\|.*\| (\d+)", " 12%|###   | 500", (12, 500)),
        (r"step (\S+)", "step nan", None),
        (r"step (\d+)/(\d+)", "step 5/0", (5, -1)),
        (r"step (\d+)", "step " + "9" * 40, None),
        (r"step (\d+)?", "step ", None),
        (SIMPLE, "x" * printed_steps.LONGEST_LINE + "step 1/2", None),
    ],
)
def test_the_step_and_the_total_of_a_line(pattern: str, line: str, found: tuple[int, int] | None) -> None:
    assert printed_steps.steps(re.compile(pattern), line) == found


@pytest.mark.parametrize("pattern", ["(", r"step \d+", r"of (?P<total>\d+)", "", "(a)\n", "(a)" * 200])
def test_what_is_no_pattern_with_a_group_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        printed_steps.check(pattern)


def test_a_pattern_that_python_warns_of_is_accepted_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    printed_steps.check(r"[[]step (\d+)")
    assert not recwarn.list


@pytest.mark.parametrize(
    ("words", "left", "own"),
    [
        (["--steps-from=(a)", "job.sh", "--steps-from=b"], ["job.sh", "--steps-from=b"], "(a)"),
        (["-N", "2", "--steps-from", "(a)", "job.sh"], ["-N", "2", "job.sh"], "(a)"),
        (["--wrap", "--steps-from=b", "--steps-from=(a)"], ["--wrap", "--steps-from=b"], "(a)"),
        (["--mem=1G", "job.sh"], ["--mem=1G", "job.sh"], None),
        (["--steps-from=(a)", "--", "-job.sh"], ["--", "-job.sh"], "(a)"),
        (["--steps-from", "--", "job.sh"], ["job.sh"], "--"),
    ],
)
def test_the_option_is_taken_out_of_sbatchs_command_line(words: list[str], left: list[str], own: str | None) -> None:
    found, options = sbatch_options.without_own(words)
    assert found == left
    assert options.get("steps-from") == own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = control.job_folder(tmp_path, os.getuid(), "7")
    control.make(made, "")
    return made


def reported(folder: Path) -> Progress:
    return progress.read(folder.parent.parent, os.getuid(), "7")


def test_the_newest_line_counts_and_a_smaller_step_does_not(folder: Path, alarm: None) -> None:
    follower = Follower(SIMPLE, folder, 2)
    follower.read(["step 1/9", "step 2/9", "loss 0.5"])
    assert reported(folder) == Progress(2, 2, 9)
    follower.read(["step 1/9"])
    assert reported(folder).step == 2


@pytest.fixture
def alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, steps_follower._interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


def test_a_search_without_end_is_interrupted(folder: Path, alarm: None) -> None:
    began = time.monotonic()
    with pytest.raises(TooSlow):
        Follower(HOSTILE, folder, 0).read(["a" * 4000 + "b"])
    assert time.monotonic() - began < 30.0


def test_an_output_is_read_in_whole_lines_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("step 1/9\n")
    with path.open("a") as writer:
        output = Output(writer.fileno())
        assert output.lines() == []
        writer.write("step 2/9\nstep 3")
        writer.flush()
        assert output.lines() == ["step 2/9"]
        writer.write("/9\r 40%\r")
        writer.flush()
        assert output.lines() == ["step 3/9", " 40%"]


def test_a_truncated_and_a_renamed_output_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("a") as writer:
        output = Output(writer.fileno())
        writer.write("a long line, longer than the next one\n")
        writer.flush()
        assert len(output.lines()) == 1
        os.truncate(path, 0)
        writer.write("step 2/9\n")
        writer.flush()
        assert output.lines() == ["step 2/9"]
        path.rename(tmp_path / "out.1")
        path.write_text("another program's\n")
        writer.write("step 3/9\n")
        writer.flush()
        assert output.lines() == ["step 3/9"]


def test_of_a_flood_the_newest_part_is_read(tmp_path: Path) -> None:
    with (tmp_path / "out").open("a") as writer:
        output = Output(writer.fileno())
        writer.write("step 8/9 " * NEWEST + "\nstep 9/9\n")
        writer.flush()
        assert output.lines() == ["step 9/9"], "a line without its beginning may state another step"


@contextmanager
def following(folder: Path, pattern: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with path.open("ab") as output:
        command = isolated.command("tiresias.wrappers.steps_follower", pattern, str(folder), "0")
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


def until(condition: Any, seconds: float = 60.0) -> None:
    deadline, pause = time.monotonic() + seconds, pauses()
    while not condition():
        assert time.monotonic() < deadline
        pause()


def test_the_process_reports_what_is_printed_and_ends_at_a_hostile_line(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.touch()

    def prints(line: str) -> bool:
        with path.open("a") as log:
            log.write(line + "\n")
        return True

    with following(folder, r"step (\d+)|(?:a+)+$", path) as process:
        until(lambda: prints("step 7/9") and reported(folder).step == 7)
        prints("a" * 4000 + "b")
        assert process.wait(60) == 0
    assert "no further progress is reported" in path.read_text()


def test_the_process_ends_at_a_pattern_that_is_none(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "out"
    with following(folder, "step (", path) as process:
        assert process.wait(60) == 0
    assert "missing )" in path.read_text()
    assert "Traceback" not in path.read_text()


def test_a_job_reports_what_it_prints_and_its_follower_ends_with_it(site: Any) -> None:
    """The whole of it: batch script, supervisor, follower; `steps_from` reaches the job as its variable."""
    job = site.start("for at in $(seq 1 200); do echo step $at/200; sleep 0.1; done", TIRESIAS_STEPS_FROM=SIMPLE)
    root = site.folder / "control"
    until(lambda: progress.read(root, os.getuid(), "7").step > 0)
    assert progress.read(root, os.getuid(), "7").total == 200
    job.process.terminate()
    job.end()
    until(lambda: not _followers(str(site.control())))


def _followers(folder: str) -> list[str]:
    found = subprocess.run(["pgrep", "-f", f"steps_follower.*{folder}"], capture_output=True, text=True, check=False)
    return found.stdout.split()
