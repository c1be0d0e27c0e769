"""`tiresias explain` as users start it, against a real control socket."""

from __future__ import annotations

import io
import json
import re
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.slurm_plugin.views.command_runs import tiresias
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.views.explain import render_explanation


def test_explain(server: ControlServer, tmp_path: Path, status: dict[str, Any]) -> None:
    text = tiresias(tmp_path, "explain", "1102").stdout
    assert "job 1102 gpt2-medium is running" in text
    assert "still runs" in text
    assert json.loads(tiresias(tmp_path, "explain", "1102", "--json").stdout)["job"]["id"] == "1102"


def test_explain_what_a_preemption_costs(tmp_path: Path) -> None:
    job = {"id": "7", "state": "RUNNING", "submit_time": 1.0, "preemptions": 1, "why": "", "preemption_cost": 14.25}
    costs = {"restore": 12.5, "save": 0.75, "pause": 1.75, "redone": 3}
    runs = [{"restart": 0, "start": 1.0, "end": 9.0, "gpus": 4, "nodes": ["gpu01:4"], **costs}]
    runs.append(runs[0] | {"restart": 1, "end": 0, **dict.fromkeys(costs)})
    with ControlServer(tmp_path / "control.sock", lambda request, peer: {"job": job, "runs": runs, "decisions": []}):
        text = tiresias(tmp_path, "explain", "7", COLUMNS="120").stdout
        narrow = tiresias(tmp_path, "explain", "7", COLUMNS="80").stdout
    assert "costs 14.2 s of its GPUs" in text
    assert [word in text for word in ("ready", "12.5s", "0.8s", "1.8s", "redone")] == [True] * 5
    assert "     ready 12.5s, save 0.8s, pause 1.8s, redone 3\n" in narrow, (
        "columns that do not fit into the table stand below the run"
    )


def test_explain_what_is_known_of_its_traffic(tmp_path: Path) -> None:
    profile = {"decision": "consolidate", "reasons": ["its largest tensor is 61.0% of the model"], "job": "3"}
    job = {"id": "7", "state": "WAITING", "submit_time": 1.0, "preemptions": 0, "why": "", "profile": profile}
    with ControlServer(tmp_path / "control.sock", lambda request, peer: {"job": job, "runs": [], "decisions": []}):
        text = tiresias(tmp_path, "explain", "7", COLUMNS="120").stdout
    assert "traffic" in text
    assert "consolidate: its largest tensor is 61.0% of the model (recorded: job 3)" in text


def test_explain_how_far_a_job_is() -> None:
    job: Any = {"id": "7", "state": "RUNNING", "submit_time": 1.0, "preemptions": 0, "why": "", "progress": 43200.0}

    def text(job: Any) -> str:
        output = io.StringIO()
        Console(file=output, width=120).print(render_explanation({"job": job, "decisions": []}, 120, 100.0))
        return output.getvalue()

    assert "step 43,200, as its program reports" in text(job)
    claimed = job | {"total_steps": 120000.0, "remaining": 7800.0}
    assert "step 43,200 of 120,000, about 2 h 10 min left, as its program reports" in text(claimed)


def test_explain_while_preemptions_are_paused(tmp_path: Path) -> None:
    job = {"id": "7", "state": "WAITING", "submit_time": 1.0, "preemptions": 0, "why": ""}
    answer = {"job": job, "runs": [], "decisions": [], "paused": {"since": 1.0, "by": "root", "reason": "drill"}}
    with ControlServer(tmp_path / "control.sock", lambda request, peer: answer):
        assert "paused by root: drill" in tiresias(tmp_path, "explain", "7", COLUMNS="120").stdout


def test_explain_what_a_job_waits_for_and_how_long_at_most(tmp_path: Path) -> None:
    now = time.time()
    job = {"id": "7", "state": "WAITING", "submit_time": 1.0, "preemptions": 2, "why": "waits"}
    run = {
        "restart": 0,
        "start": now - 90,
        "end": now - 60,
        "gpus": 4,
        "nodes": ["gpu01:4"],
        "pause": 1.0,
        "beneficiary": "5",
    }
    steps = [{"time": now + 65, "what": "job 9 (4 GPUs) sinks below Q1, if it runs on"}]
    forecast = {
        "free": 0,
        "ahead": 8,
        "behind": 4,
        "fixed": 0,
        "others": 3,
        "steps": steps,
        "latest": now + 3700,
        "why": "\x1b[2J",
    }
    costs = {"saving": 4.0, "restoring": 0.0, "redone": 0.0}
    answer = {"job": job, "runs": [run], "decisions": [], "had": costs, "outlook": forecast}
    with ControlServer(tmp_path / "control.sock", lambda request, peer: dict(answer)):
        bounded = tiresias(tmp_path, "explain", "7", COLUMNS="80").stdout
        forecast["latest"], forecast["why"] = None, "in the last queue those ahead of it may run until they end"
        unbounded = tiresias(tmp_path, "explain", "7", COLUMNS="120").stdout
    assert "for job 5; measured cost 4 GPU-s" in bounded
    assert "8 held by higher-ranked jobs, 4 by lower-ranked jobs, 3 by" in bounded
    assert re.search(r"next +[0-9:]{8}, in 1m0[0-9]s: job 9 \(4 GPUs\) sinks below Q1", bounded)
    assert re.search(r"latest start +[0-9:]{8}, in 1h01m, if no further jobs arrive and no node fails", bounded)
    assert all(line.isprintable() and len(line) <= 80 for line in bounded.splitlines())
    assert re.search(r"no bound +in the last queue", unbounded)


def test_explain_a_hostile_job(server: ControlServer, tmp_path: Path, status: dict[str, Any]) -> None:
    calm = tiresias(tmp_path, "explain", "1102", COLUMNS="80").stdout
    hostile = "\x1b[2J\n[bold]\u202e" + "x" * 1_000_000
    status["jobs"][10] |= {"name": hostile, "why": hostile, "user": hostile, "partition": hostile}
    text = tiresias(tmp_path, "explain", "1102", COLUMNS="80").stdout
    assert calm.count("\n") <= text.count("\n") <= calm.count("\n") + 60  # a text takes 1,000 cells at most
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80


def test_explain_an_ended_job_of_which_little_is_known(tmp_path: Path) -> None:
    ended = {"id": "7", "state": "ENDED", "submit_time": 1.0, "preemptions": 2, "why": ""}
    with ControlServer(tmp_path / "control.sock", lambda request, peer: {"job": ended, "runs": [], "decisions": []}):
        text = tiresias(tmp_path, "explain", "7").stdout
    assert "job 7 has ended" in text
    assert "2 times" in text


def test_explain_a_job_that_does_not_exist(server: ControlServer, tmp_path: Path) -> None:
    done = tiresias(tmp_path, "explain", "99")
    assert (done.returncode, done.stderr) == (1, "tiresias: job 99: not known here\n")


@pytest.mark.parametrize(
    "word", ["x", "12a", "1_", "1_[", "1_[]", "1_[a]", "[1-2]", "1__2", "１２", "12\n", "", "1" * 50, "../12"]
)
def test_explain_what_is_no_job_id(tmp_path: Path, word: str) -> None:
    done = tiresias(tmp_path, "explain", word)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is not a job id" in done.stderr


EXPLAINED: dict[str, Any] = {"runs": [], "decisions": []}
SLURM: dict[str, Any] = {
    "state": "PENDING",
    "reason": "Dependency",
    "shown": "Dependency",
    "exit_code": None,
    "batch": True,
    "tsbatch": True,
    "ready": False,
    "depends_on": [],
}
WAITS: dict[str, Any] = {"id": "7", "state": "WAITING", "submit_time": 1.0, "preemptions": 0, "why": "waits"}


def explained(tmp_path: Path, answer: dict[str, Any], job: str = "7", **more: str) -> list[str]:
    with ControlServer(tmp_path / "control.sock", lambda request, peer: dict(answer)):
        return tiresias(tmp_path, "explain", job, **more).stdout.splitlines()


@pytest.mark.parametrize(
    ("state", "slurm", "line"),
    [
        ("NOT COMPETING", {}, "Slurm: PENDING (Dependency)"),
        ("NOT COMPETING", {"reason": "JobHeldAdmin", "shown": "JobHeldAdmin"}, "Slurm: PENDING (JobHeldAdmin)"),
        (
            "WAITING",
            {"reason": "JobHeldAdmin", "shown": "JobHeldAdmin"},
            "Slurm: PENDING (JobHeldAdmin): Tiresias holds the job until it may start",
        ),
        (
            "WAITING",
            {"reason": "AssocGrpGRES", "shown": "JobHeldAdmin"},
            "Slurm: PENDING (AssocGrpGRES); squeue shows JobHeldAdmin: Tiresias holds the job until it may start",
        ),
        ("RUNNING", {"state": "RUNNING", "reason": "None", "shown": "None"}, "Slurm: RUNNING"),
        (
            "ENDED",
            {"state": "FAILED", "reason": "NonZeroExitCode", "shown": "NonZeroExitCode", "exit_code": 3},
            "Slurm: FAILED (NonZeroExitCode), exit code 3",
        ),
        (
            "ENDED",
            {"state": "CANCELLED", "reason": "None", "shown": "None", "exit_code": 143},
            "Slurm: CANCELLED, exit code 143 (signal 15)",
        ),
    ],
)
def test_the_reason_of_slurm_comes_first(tmp_path: Path, state: str, slurm: dict[str, Any], line: str) -> None:
    lines = explained(tmp_path, EXPLAINED | {"job": WAITS | {"state": state}, "slurm": SLURM | slurm})
    assert lines[1:3] == [line, "waits"]


def test_an_ended_job_that_slurmctld_has_forgotten(tmp_path: Path) -> None:
    ended = {"id": "7", "uid": 0, "gpus": 2, "state": "ENDED", "submit_time": 1.0, "preemptions": 0, "why": ""}
    text = "\n".join(explained(tmp_path, EXPLAINED | {"job": ended, "slurm": None}))
    assert "Slurm: no longer known to slurmctld; sacct -j 7 -o JobID,State,ExitCode shows how it ended" in text
    assert re.search(r"^user +root$", text, re.MULTILINE)
    assert re.search(r"^GPUs +2$", text, re.MULTILINE)


def test_a_job_of_plain_sbatch_names_tsbatch(tmp_path: Path) -> None:
    hint = "submitted with sbatch: use tsbatch to make it preemptible"
    shown = {}
    for by, ready in product((True, False), repeat=2):
        answer = EXPLAINED | {"job": WAITS, "slurm": SLURM | {"tsbatch": by, "ready": ready}}
        shown[by, ready] = hint in "\n".join(explained(tmp_path, answer))
    assert shown == {(True, True): False, (True, False): False, (False, True): False, (False, False): True}


def test_each_job_that_it_depends_on_with_its_state(tmp_path: Path) -> None:
    others = [
        {"kind": "afterok", "job": "5", "failed": False, "state": "RUNNING", "exit_code": None},
        {"kind": "afterok", "job": "6", "failed": True, "state": "FAILED", "exit_code": 3},
        {"kind": "afterany", "job": "4_*", "failed": False, "state": "2 RUNNING, 1 PENDING", "exit_code": None},
        {"kind": "afterany", "job": "3", "failed": False, "state": "", "exit_code": None},
    ]
    answer = EXPLAINED | {"job": WAITS, "slurm": SLURM | {"depends_on": others}}
    found = [line.split(maxsplit=2)[2] for line in explained(tmp_path, answer) if line.startswith("depends on")]
    assert found == [
        "job 5 (afterok): RUNNING",
        "job 6 (afterok): FAILED, exit code 3: can never be satisfied",
        "job 4_* (afterany): 2 RUNNING, 1 PENDING",
        "job 3 (afterany): not known to slurmctld",
    ]


@pytest.mark.parametrize("columns", ["80", "120", ""])
def test_no_word_of_an_explanation_is_cut(tmp_path: Path, columns: str) -> None:
    words = " ".join(f"word{number}" for number in range(90))
    nodes = [f"gpu{number:02}:4" for number in range(40)]
    job = WAITS | {"why": words, "user": "ada", "partition": "a-partition-" + "p" * 60, "name": "n" * 90}
    run = {"restart": 0, "start": 1.0, "end": 9.0, "gpus": 4, "nodes": nodes, "beneficiary": "123456_789"}
    decisions = [{"time": 1.0, "job": "7", "action": "start", "why": words}]
    answer = EXPLAINED | {"job": job, "slurm": SLURM, "runs": [run], "decisions": decisions}
    lines = explained(tmp_path, answer, **({"COLUMNS": columns} if columns else {}))
    text = " ".join(lines)
    assert "…" not in text
    assert [text.count(f"word{number}") for number in range(10, 90)] == [2] * 80
    assert all(node in text for node in nodes)
    assert "123456_789" in text or columns == "120"  # there it wraps in its column
    assert "".join(lines).count("n") >= 90
    if columns:
        assert max(map(len, lines)) <= int(columns)
    else:
        assert words in lines


ARRAY: dict[str, Any] = {
    "array": "7", "count": 1003, "paused": None,
    "groups": [
        {"tasks": "0-1", "count": 2, "slurm": SLURM | {"state": "RUNNING", "reason": "None"},
         "job": WAITS | {"id": "7_0", "state": "RUNNING", "gpus": 4, "user": "ada", "partition": "gpu", "name": "sweep"}},
        {"tasks": "2-40,99", "count": 1000, "slurm": SLURM | {"reason": "JobHeldAdmin"}, "job": WAITS | {"id": "7_2", "gpus": 4}},
        {"tasks": "41", "count": 1, "slurm": None, "job": {"id": "7_41", "state": "ENDED", "submit_time": 1.0, "preemptions": 0}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("asked", ["7", "7_[0-99]", "7_[0-99%2]"])
def test_an_array_is_shown_in_groups_of_its_tasks(tmp_path: Path, asked: str) -> None:
    lines = explained(tmp_path, ARRAY, asked, COLUMNS="80")
    assert lines[0] == "array 7 sweep: 1003 tasks"
    assert lines[1].split() == ["user", "ada,", "partition", "gpu"]
    rows = [line.split()[:3] for line in lines if re.match(r"[0-9]+[-, ]", line)]
    assert rows == [["0-1", "2", "running"], ["2-40,", "99", "1000"], ["41", "1", "ended"]]
    assert "PENDING (JobHeldAdmin)" in "\n".join(lines)
    assert lines[-1] == "tiresias explain 7_0 shows one task, its runs and decisions"
    assert max(map(len, lines)) <= 80
    json_lines = explained(tmp_path, ARRAY, asked)
    assert not any("…" in line for line in json_lines)


def test_explain_when_a_job_ends_and_what_a_change_of_its_size_gained() -> None:
    job: Any = {
        "id": "7",
        "state": "RUNNING",
        "submit_time": 1.0,
        "preemptions": 0,
        "why": "",
        "gpus": 8,
        "elastic": "2-8",
    }
    end = {"end": 4000.0, "end_low": 3700.0, "end_high": 4600.0, "min_gpus": 2, "max_gpus": 8}
    first: Any = {"restart": 0, "start": 1.0, "end": 50.0, "gpus": 4, "nodes": ["gpu01:4"], "timed": 1.0}
    second = first | {"restart": 1, "start": 60.0, "end": 0, "gpus": 8, "timed": 0.55, "expected": 0.6}

    def text(job: Any, *runs: Any) -> str:
        output = io.StringIO()
        answer: Any = {"job": job, "runs": list(runs), "decisions": []}
        Console(file=output, width=140).print(render_explanation(answer, 140, 400.0))
        return " ".join(output.getvalue().split())

    shown = text(job | end, first, second)
    assert "8; elastic: 2-8 " in shown
    assert "in 1h00m (90%:" in shown
    assert "grew from 4 to 8 GPUs in run 2: 0.55s a step instead of 1s, 1.8 times as fast, expected were 0.6s" in shown
    assert "service step expected" in shown, "columns of the runs"
    assert "elastic: 2-8, now 2-4" in text(job | end | {"max_gpus": 4})
    assert "shrank from 8 to 4 GPUs in run 2: its steps are not timed yet" in text(
        job, second, first | {"restart": 1, "timed": None}
    )
    slow = text(job | {"slow_nodes": [["gpu02", 5.04]]})
    assert "slow nodes gpu02 (5.0 times as slow): slower than half of the median of its ranks or servers, which" in slow
    assert "not expected to converge" in text(job | {"end_low": 3700.0, "end": None, "end_high": None})
    plain = text(job, first | {"timed": None})
    assert "expected" not in plain
    assert "grew" not in plain
