"""`tiresias rehearse` as a plain user types it, on a real Slurm without a controller."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.releases import speaking
from tiresias.sandbox.cluster import Cluster

pytestmark = pytest.mark.sandbox
PROGRAM = "/opt/tiresias/tests/sandbox/rehearse/program.py"
ROOTS = {"TIRESIAS_CONTROL_ROOT": "/shared/r/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/r/checkpoints"}
MISSING = {
    "deaf": "no checkpoint within 3 s of the signal",
    "no99": "after the checkpoint signal the job ended as COMPLETED with exit code 0, not with 99",
    "saveless": "the program exited with code 99, but no checkpoint in",
    "forgetful": "run 1 started from the beginning, though step",
    "stuck": "but its loop began at step 1",
    "crash": "restoring failed: run 1 ended as FAILED with exit code 1 before its first step",
    "dies": "after its resumption the job ended as FAILED with exit code 7",
    "early": "the job ended before 2 s of training",
}

RARE = ("forgetful", "crash", "dies", "early")


def rehearse(
    cluster: Cluster, script: str, *options: str, own_options: tuple[str, ...] = ()
) -> tuple[int, dict[str, Any], str]:
    """Exit code, the findings, what was reported on the way."""
    cluster.run(["mkdir", "-p", "-m", "1777", "/shared/r", *ROOTS.values()])
    (cluster.shared / "r/job.sh").write_text(f"#!/bin/bash\n{script}\n")
    words = ["tiresias", "rehearse", "--after", "2", "--deadline", "3", "--json", *own_options, "job.sh", *options]
    done = cluster.run(words, user="alice", env=ROOTS, cwd="/shared/r", check=False, timeout=170)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def missing(found: dict[str, Any]) -> list[str]:
    return [one["what"] for one in found["findings"] if not one["fine"]]


def test_a_good_script(cluster: Cluster) -> None:
    code, found, reported = rehearse(
        cluster, f'exec python3 {PROGRAM} good "$@"', "-o", "log-%j", "--", "5000", "result"
    )
    assert (code, missing(found)) == (0, []), reported
    words = "\n".join(one["what"] for one in found["findings"])
    assert "saved step" in words
    assert "on other nodes" in words
    assert "was appended to" in words
    assert 0 < found["seconds"]["save"] < found["seconds"]["pause"] < 3
    assert found["seconds"]["restore"] > 0
    left = cluster.run(["squeue", "-h", "-t", "pending,running"]).stdout
    assert not left, "the rehearsal leaves its job"


@pytest.mark.ci
@pytest.mark.parametrize(
    "habit", [pytest.param(one, marks=[pytest.mark.long] if one in RARE else []) for one in MISSING]
)
def test_what_is_missing_is_reported(cluster: Cluster, habit: str) -> None:
    steps = 60 if habit == "early" else 5000
    code, found, reported = rehearse(cluster, f"exec python3 {PROGRAM} {habit} {steps} result")
    assert code == 1
    (what,) = missing(found)
    assert what.startswith(MISSING[habit]) or what.endswith(MISSING[habit]), reported
    assert found["findings"][-1]["advice"]
    if habit == "crash":
        assert "RuntimeError: the optimizer's state does not fit" in found["findings"][-1]["advice"]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        (f"exec python3 {PROGRAM} good 5000 result", ("--no-requeue",), "Slurm does not requeue the job"),
        (f"exec python3 {PROGRAM} good 5000 result", ("--open-mode=truncate",), "lines of the first run are gone from"),
        ("sleep 60", (), "the program did not report within"),
        ("true", (), "the script ended without a call of should_stop"),
        (
            "python3 -c 'import nothing_like_it'",
            (),
            "the script ended as FAILED with exit code 1 before its first step",
        ),
    ],
)
def test_what_scripts_and_options_get_wrong(
    cluster: Cluster, script: str, options: tuple[str, ...], words: str
) -> None:
    code, found, reported = rehearse(cluster, script, *options, own_options=("--startup", "5"))
    assert code == 1
    (what,) = missing(found)
    assert what.startswith(words), reported


@pytest.mark.long
def test_a_tool_that_the_node_lacks_is_named(cluster: Cluster) -> None:
    code, found, reported = rehearse(cluster, "sleep 60", "--checkpoint=dmtcp")
    assert code == 1
    assert missing(found) == ["it would never be preempted: dmtcp_launch is not in PATH on sandbox"], reported
    assert found["findings"][-1]["advice"].startswith("install DMTCP 4 on the nodes")
    assert reported.count("submitted job") == 1


ELASTIC = ("--elastic=1-4", "--ntasks=2", "--gpus-per-task=1")


def test_an_elastic_program_runs_with_another_size(cluster: Cluster) -> None:
    code, found, reported = rehearse(cluster, f"exec srun python3 {PROGRAM} elastic 5000 result", *ELASTIC)
    assert (code, missing(found)) == (0, []), reported
    words = [one["what"] for one in found["findings"]]
    assert {"elastic: run 0 used 2 GPUs", "elastic: run 1 used 1 GPUs"} <= set(words)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        (f"exec python3 {PROGRAM} elastic 5000 result", ELASTIC,
         "not elastic: the program ignores the number of GPUs: 1 ranks registered with 2 GPUs in place of 2"),
        (f"exec srun python3 {PROGRAM} good 5000 result", ELASTIC, "not elastic: it does not resume with 1 GPUs"),
        (f"exec srun -n 2 python3 {PROGRAM} elastic 5000 result", ELASTIC, "not elastic: it does not resume with 1 GPUs"),
        (f"exec srun python3 {PROGRAM} elastic 5000 result", ("--elastic=2-5", "--nodes=1", "--gres=gpu:3"),
         "not elastic: sizes differ from the 3 GPUs that it requests by multiples of 3: none is in 2-5"),
    ],
)  # fmt: skip
def test_why_a_program_is_not_elastic(cluster: Cluster, script: str, options: tuple[str, ...], words: str) -> None:
    code, found, reported = rehearse(cluster, script, *options)
    assert code == 1
    assert words in missing(found), reported
    assert found["findings"][-1]["advice"].endswith("submit it without --elastic")


def test_a_program_of_a_release_that_cannot_be_spoken_with(cluster: Cluster) -> None:
    speaking(cluster.shared / "newer", 8, 9)
    code, found, reported = rehearse(
        cluster, f"export PYTHONPATH=/shared/newer; exec python3 {PROGRAM} good 5000 result"
    )
    assert code == 1
    (what,) = missing(found)
    assert what.startswith("it would never be preempted: slurm-tiresias-checkpoint in the job's environment speaks"), (
        reported
    )
    assert what.endswith("of the control protocol, this installation 1 to 2: update this installation")


@pytest.mark.parametrize(("habit", "same"), [("good", True), ("lossy", False)])
def test_compared_with_an_undisturbed_run(cluster: Cluster, habit: str, same: bool) -> None:
    code, found, reported = rehearse(
        cluster, f"exec python3 {PROGRAM} {habit} 500 result", own_options=("--compare", "result")
    )
    assert code == (0 if same else 1), reported
    assert missing(found) == ([] if same else ["result differs from that of an undisturbed run"])


def test_mistakes_of_the_command_line(cluster: Cluster) -> None:
    for words in (
        ["nofile.sh"],
        ["--after", "-1", "x.sh"],
        ["--after", "nan", "x.sh"],
        ["job.sh", "--partition=nowhere"],
    ):
        (cluster.shared / "job.sh").write_text("#!/bin/sh\ntrue\n")
        done = cluster.run(["tiresias", "rehearse", *words], user="alice", env=ROOTS, cwd="/shared", check=False)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("folder", "roots", "words"),
    [
        ("/var", ROOTS, "/var is not writable, and the job's log goes there"),
        (
            "/shared/r",
            ROOTS | {"TIRESIAS_CHECKPOINT_ROOT": "/var/k"},
            "/var/k is not writable, and the job's checkpoints go there",
        ),
        (
            "/shared/r",
            ROOTS | {"TIRESIAS_CONTROL_ROOT": "/var/c"},
            "/var/c is not writable, and the job's control files go there",
        ),
    ],
)
def test_a_folder_that_cannot_be_written_is_one_line(
    cluster: Cluster, folder: str, roots: dict[str, str], words: str
) -> None:
    cluster.run(["mkdir", "-p", "-m", "1777", "/shared/r", *ROOTS.values()])
    (cluster.shared / "r/job.sh").write_text("#!/bin/sh\ntrue\n")
    done = cluster.run(["tiresias", "rehearse", "/shared/r/job.sh"], user="alice", env=roots, cwd=folder, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert words in done.stderr


@pytest.mark.slow
def test_where_there_is_no_slurm(tmp_path: Path) -> None:
    """A private cluster for the time of the rehearsal, the script's folder copied into it."""
    (tmp_path / "program.py").write_bytes(Path(__file__).with_name("program.py").read_bytes())
    (tmp_path / "job.sh").write_text("#!/bin/sh\nexec python3 program.py good 5000 result\n")
    words = ["rehearse", "--sandbox", "--after", "1", str(tmp_path / "job.sh")]
    done = subprocess.run(
        [sys.executable, "-m", "tiresias", *words], capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "This job can be preempted."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.sh", "program.py"]
