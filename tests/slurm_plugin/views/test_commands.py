"""`tiresias status` and `check-config` as users start them, against a real control socket."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pseudo_terminal import Terminal
from tests.slurm_plugin.views.command_runs import TIRESIAS, environment, tiresias
from tiresias.slurm_plugin.sockets.control_socket import ControlServer


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


def test_a_controller_that_hangs_is_reported_soon(tmp_path: Path) -> None:
    """The kernel accepts the connection, and no answer comes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hung:
        hung.bind(str(tmp_path / "control.sock"))
        hung.listen()
        began = time.monotonic()
        done = tiresias(tmp_path, "status")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "is it running? (no answer in time)" in done.stderr
    assert time.monotonic() - began < 30.0, "a whole status may take 60 s"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simulate", "--nope"], "tiresias simulate: unrecognized arguments: --nope; see tiresias simulate --help"),
        (
            ["ledger"],
            "tiresias ledger: the following arguments are required: check|rebuild; see tiresias ledger --help",
        ),
        (["nope"], "tiresias: argument COMMAND: invalid choice: 'nope' (choose from "),
        (["sandbox", "up", "--suite", "x\ny"], "tiresias sandbox up: argument --suite: invalid choice: 'x"),
    ],
)
def test_a_mistake_in_the_options_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    done = tiresias(tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(message)


def test_no_columns_are_no_width(tmp_path: Path) -> None:
    done = tiresias(tmp_path, "check-config", COLUMNS="0")
    assert "preemption.deadline" in done.stdout


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


def test_check_config_shows_each_virtual_cluster(tmp_path: Path) -> None:
    file = tmp_path / "tiresias.toml"
    accounts = [f"{name}-{number:03}" for name in ("speech", "vision") for number in range(10)]
    tables = [
        f'[[virtual_cluster]]\nname = "{name}"\ncells = [{{ level = "node", count = 2 }}]\n'
        f"accounts = {[each for each in accounts if each.startswith(name)]}\n"
        for name in ("speech", "vision")
    ]
    file.write_text('[policy]\nadmission = "virtual_clusters"\n' + "".join(tables))
    rows = [
        line for line in tiresias(tmp_path, "check-config", str(file)).stdout.splitlines() if "virtual_cluster " in line
    ]
    assert [row.split()[1] for row in rows] == ["speech", "vision"]
    assert all(name in row for row, own in zip(rows, (accounts[:10], accounts[10:]), strict=True) for name in own)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Any]:
    opened: list[Terminal] = []

    def start(*words: str, **more: str) -> Terminal:
        opened.append(Terminal([*TIRESIAS, *words], environment(tmp_path, **more)))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_a_terminal_without_colour(server: ControlServer, terminal: Any) -> None:
    coloured = terminal("status").read_until(b"1218", b"last decisions")
    plain = terminal("status", NO_COLOR="1").read_until(b"1218", b"last decisions")
    assert b"\x1b[32m" in coloured
    assert b"38;5;" in coloured or b"48;5;" in coloured or b"48;2;" in coloured
    assert not any(mark in plain for mark in (b"\x1b[32m", b"38;5;", b"48;5;", b"48;2;", b";40m"))
