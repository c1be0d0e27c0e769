"""A program in the shell that saves by itself on a signal, under the hook. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HOOK = [sys.executable, "-m", "tiresias.checkpoint.adapters.hook"]
TRIAL_STEPS = 100_000
OWN_PROGRAM_S = 4.0  # several times as long as all moments until it is stopped

# Saves on USR1 and goes on; ends only when it has come to the end.
GOES_ON = """#!/bin/sh
step=0; [ -e own.state ] && read -r step < own.state
echo from $step
trap 'echo $step > own.state' USR1
while [ $step -lt 100000 ]; do step=$((step + 1)); sleep 0.01; done
"""


def program(folder: Path, text: str) -> str:
    path = folder / "program"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def steps_on_this_machine(folder: Path) -> str:
    """Return the steps that own_program makes in OWN_PROGRAM_S of a processor, whatever else the machine does now."""
    began = children_s()
    subprocess.run([EXAMPLES / "own_program", str(TRIAL_STEPS)], cwd=folder, check=True)
    return str(round(TRIAL_STEPS * OWN_PROGRAM_S / (children_s() - began)))


def children_s() -> float:
    """Return the seconds of a processor that ended child processes used."""
    times = os.times()
    return times.children_user + times.children_system


def test_a_stopped_program_ends_with_the_same_result(pair: Any, tmp_path: Path) -> None:
    whole, stopped = pair(
        [*HOOK, "--file", "own.state", "--", str(EXAMPLES / "own_program"), steps_on_this_machine(tmp_path)]
    )
    whole.whole()
    stopped.stopped(3, seed=1)
    assert (stopped.folder / "own.result").read_text() == (whole.folder / "own.result").read_text()


def test_a_program_that_goes_on_after_its_save_is_ended(pair: Any, tmp_path: Path) -> None:
    job, _ = pair([*HOOK, "--file", "own.*", "--", program(tmp_path, GOES_ON)])
    for _ in range(2):
        job.start()
        job.until_ready()
        time.sleep(0.3)
        job.request("file")
        assert job.end() == 99, job.log()
    starts = [int(line.split()[1]) for line in job.log().splitlines() if line.startswith("from ")]
    assert starts[0] == 0 < starts[1], job.log()


def test_the_last_good_files_come_back_and_half_a_file_does_not(pair: Any, tmp_path: Path) -> None:
    job, _ = pair([*HOOK, "--file", "own.*", "--", program(tmp_path, GOES_ON)])
    job.start()
    job.until_ready()
    time.sleep(0.2)
    job.request("file")
    assert job.end() == 99
    good = (job.folder / "own.state").read_text()
    (job.folder / "own.state").write_text("")  # as a crash leaves it
    (job.folder / "own.more").write_text("x")
    job.start()
    job.until_ready()
    assert (job.folder / "own.state").read_text() == good
    assert not (job.folder / "own.more").exists()
    assert (job.folder / ".set-aside/own.more").read_text() == "x"
    job.kill()


def test_what_it_saves_at_other_times_is_committed_too(pair: Any, tmp_path: Path) -> None:
    saves = program(tmp_path, "#!/bin/sh\necho 7 > own.state\nexec sleep 60\n")
    job, _ = pair([*HOOK, "--file", "own.state", "--", saves])
    job.start()
    deadline = time.monotonic() + 30
    while not (job.folder / "checkpoints/step-1/manifest.json").exists():
        assert time.monotonic() < deadline, job.log()
        time.sleep(0.05)
    job.kill()


@pytest.mark.parametrize("code", [0, 5])
def test_a_program_that_ends_by_itself_gives_the_exit_code(pair: Any, tmp_path: Path, code: int) -> None:
    job, _ = pair([*HOOK, "--file", "x", "--", program(tmp_path, f"#!/bin/sh\nexit {code}\n")])
    job.start()
    assert job.processes[0].wait(60) == code


def test_a_program_that_does_not_handle_the_signal_is_left_alone(pair: Any) -> None:
    """It would die of it: the job never registers."""
    job, _ = pair([*HOOK, "--file", "x", "--", "sleep", "1.5"])
    job.start()
    job.request("file")
    assert job.processes[0].wait(60) == 0


def test_the_exit_code_of_a_program_that_dies_of_a_signal_is_a_shells(pair: Any, tmp_path: Path) -> None:
    job, _ = pair([*HOOK, "--file", "x", "--", program(tmp_path, "#!/bin/sh\nkill -KILL $$\n")])
    job.start()
    assert job.processes[0].wait(60) == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--file", "x", "--signal", "NO", "--", "true"], 2, "not a signal"),
        (["--file", "x", "--", "./nothing"], 1, "./nothing: No such file"),
    ],
)
def test_mistakes_are_reported_in_one_line(pair: Any, words: list[str], code: int, expected: str) -> None:
    job, _ = pair([*HOOK, *words])
    job.start()
    assert job.processes[0].wait(60) == code
    assert expected in job.log()
    assert "Traceback" not in job.log()
