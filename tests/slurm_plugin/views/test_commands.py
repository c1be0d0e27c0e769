"""`tiresias status` and `tiresias explain` as users start them, against a real control socket."""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.pseudo_terminal import Terminal
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.sockets.peer import Peer

TIRESIAS = [sys.executable, "-m", "tiresias"]


@pytest.fixture
def server(status: dict[str, Any], tmp_path: Path) -> Iterator[ControlServer]:
    status["time"] = time.time()

    def answer(request: dict[str, Any], peer: Peer) -> dict[str, Any]:
        if request["op"] == "status":
            return dict(status)
        found = [job for job in status["jobs"] if job["id"] == request["job"]]
        if not found:
            raise TiresiasError(f"job {request['job']}: not known here")
        run = {"restart": 0, "start": status["time"] - 900, "end": 0, "nodes": ["gpu13"], "gpus": 4}
        return {"job": found[0], "runs": [run], "decisions": status["decisions"]}

    with ControlServer(tmp_path / "control.sock", answer) as running:
        yield running


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return keep | {"TIRESIAS_PATHS_RUN": str(tmp_path), "TERM": "xterm-256color"} | more


def tiresias(tmp_path: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TIRESIAS, *words], env=environment(tmp_path, **more), capture_output=True, text=True, timeout=60, check=False
    )


def test_status_into_a_pipe(server: ControlServer, tmp_path: Path) -> None:
    done = tiresias(tmp_path, "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Tiresias testbed  exact")
    assert "\x1b" not in done.stdout


def test_a_pipe_gets_every_job_with_its_whole_reason(
    server: ControlServer, tmp_path: Path, status: dict[str, Any]
) -> None:
    why = " ".join(f"word{number}" for number in range(60))
    status["jobs"] += [dict(status["jobs"][-1], id=str(2000 + more), name=f"{'n' * 60}-{more}") for more in range(300)]
    status["jobs"][-1]["why"] = why
    status["alarms"] = [f"alarm {number}: {why}" for number in range(9)]
    text = tiresias(tmp_path, "status").stdout
    assert all(f" {job['id']} " in text and job["name"] in text for job in status["jobs"])
    assert why in text
    assert all(f"! alarm {number}: {why}\n" in text for number in range(9))
    assert "…" not in text
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_watch_into_a_pipe_prints_once(server: ControlServer, tmp_path: Path) -> None:
    assert tiresias(tmp_path, "status", "--watch").stdout.count("Tiresias testbed") == 1


@pytest.mark.parametrize(("words", "width"), [((), ""), (("--watch",), "80")])
def test_the_jobs_of_one_user(
    server: ControlServer, tmp_path: Path, status: dict[str, Any], words: tuple[str, ...], width: str
) -> None:
    status["blocked"] = [
        {"id": "1170", "user": user, "gpus": 4, "state": "BLOCKED", "submit_time": 1.0, "preemptions": 0, "why": "x"}
        for user in ("grace", "hana")
    ]
    columns = {"COLUMNS": width} if width else {}
    done = tiresias(tmp_path, "status", *words, "--user", "grace", **columns)
    assert done.returncode == 0, done.stderr
    assert "jobs of grace" in done.stdout
    others = {job["id"] for job in status["jobs"] if job["user"] != "grace"}
    assert not others & set(re.findall(r"\b[0-9]{4}\b", done.stdout))
    assert [done.stdout.count(f" {job} ") for job in ("1218", "1120", "1170")] == [2, 1, 1], "1218 has a decision, too"
    assert "53/60 GPUs" in done.stdout, "sums are the cluster's"
    found = json.loads(tiresias(tmp_path, "status", "--json", "--user", "grace").stdout)
    assert [job["id"] for job in found["jobs"]] == ["1218", "1120"]
    assert [job["user"] for job in found["blocked"]] == ["grace"]
    assert [one["job"] for one in found["decisions"]] == ["1218"]
    assert found["nodes"] == json.loads(json.dumps(status["nodes"]))


def test_ones_own_jobs(server: ControlServer, tmp_path: Path, status: dict[str, Any]) -> None:
    assert f"{getpass.getuser()} has no jobs in the managed partitions" in tiresias(tmp_path, "status", "--me").stdout
    status["jobs"][4]["user"] = getpass.getuser()
    found = json.loads(tiresias(tmp_path, "status", "--me", "--json").stdout)
    assert [job["id"] for job in found["jobs"]] == ["1210"]
    assert (
        tiresias(tmp_path, "status", "--user", str(os.getuid()), "--json").stdout == json.dumps(found, indent=2) + "\n"
    )
    refused = tiresias(tmp_path, "status", "--me", "--user", "ada")
    assert (refused.returncode, "not allowed with" in refused.stderr) == (2, True)


def test_json_is_what_the_controller_publishes(server: ControlServer, tmp_path: Path, status: dict[str, Any]) -> None:
    status["jobs"][0]["name"] = "\x1b[31m\ud800"
    done = tiresias(tmp_path, "status", "--json")
    assert json.loads(done.stdout) == json.loads(json.dumps(status))
    assert done.stdout.isascii()


def test_svg(server: ControlServer, tmp_path: Path) -> None:
    assert tiresias(tmp_path, "status", "--svg", str(tmp_path / "x.svg")).returncode == 0
    assert (tmp_path / "x.svg").read_text().startswith("<svg")
    refused = tiresias(tmp_path, "status", "--svg", str(tmp_path / "no" / "x.svg"))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "cannot be written" in refused.stderr


def test_a_terminal_without_these_characters(server: ControlServer, tmp_path: Path) -> None:
    done = tiresias(tmp_path, "status", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Tiresias testbed" in done.stdout
    assert "- nodes ---" in done.stdout
    assert "?" not in done.stdout


def test_admin_is_for_the_live_view(tmp_path: Path) -> None:
    done = tiresias(tmp_path, "status", "--admin")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "--watch" in done.stderr


@pytest.mark.parametrize("words", [["status"], ["status", "--watch"], ["status", "--json"], ["explain", "12"]])
def test_no_controller(tmp_path: Path, words: list[str]) -> None:
    done = tiresias(tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"no controller answers at {tmp_path}/control.sock: is it running?" in done.stderr


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
    outlook = {
        "free": 0,
        "ahead": 8,
        "behind": 4,
        "fixed": 0,
        "others": 3,
        "steps": steps,
        "latest": now + 3700,
        "why": "\x1b[2J",
    }
    had = {"saving": 4.0, "restoring": 0.0, "redone": 0.0}
    answer = {"job": job, "runs": [run], "decisions": [], "had": had, "outlook": outlook}
    with ControlServer(tmp_path / "control.sock", lambda request, peer: dict(answer)):
        bounded = tiresias(tmp_path, "explain", "7", COLUMNS="80").stdout
        outlook["latest"], outlook["why"] = None, "in the last queue those ahead of it may run until they end"
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
    "state": "PENDING", "reason": "Dependency", "shown": "Dependency", "exit_code": None, "batch": True, "tsbatch": True,
    "ready": False, "depends_on": [],
}  # fmt: skip
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


def test_check_config(tmp_path: Path) -> None:
    file = tmp_path / "tiresias.toml"
    file.write_text('mode = "exact"\n[policy]\nthresholds = [60]\n')
    text = tiresias(tmp_path, "check-config", str(file), COLUMNS="200").stdout
    assert "environment TIRESIAS_PATHS_RUN" in text
    shown = json.loads(tiresias(tmp_path, "check-config", str(file), "--json").stdout)
    assert shown["policy.thresholds"] == {"value": [60.0], "source": str(file)}
    assert shown["policy.promote_knob"] == {"value": "inf", "source": "default"}
    file.write_text('mode = "exat"\n')
    done = tiresias(tmp_path, "check-config", str(file))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Any]:
    opened: list[Terminal] = []

    def start(*words: str, **more: str) -> Terminal:
        opened.append(Terminal([*TIRESIAS, *words], environment(tmp_path, **more)))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_a_terminal_that_wants_no_colour(server: ControlServer, terminal: Any) -> None:
    coloured = terminal("status").read_until(b"1218", b"last decisions")
    plain = terminal("status", NO_COLOR="1").read_until(b"1218", b"last decisions")
    assert b"\x1b[32m" in coloured
    assert b"38;5;" in coloured or b"48;5;" in coloured or b"48;2;" in coloured
    assert not any(mark in plain for mark in (b"\x1b[32m", b"38;5;", b"48;5;", b"48;2;", b";40m"))
