"""Whether tsrun has a job recorded, and what the tasks' environment gets then."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tiresias.profiler import build
from tiresias.protocol import control, environment
from tiresias.protocol.profile_summary import Summary, as_object
from tiresias.wrappers import tsrun
from tiresias.wrappers.trial import begin, watch
from tiresias.wrappers.trial.fold import fold

ADDED = {"LD_PRELOAD": "/lib/net.so", "TIRESIAS_PROFILE_DIR": "/tmp/x"}
PAIRS = "LD_PRELOAD=/lib/net.so,TIRESIAS_PROFILE_DIR=/tmp/x"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Of a job that is to be recorded."""
    folder = control.job_folder(tmp_path, os.getuid(), "7")
    folder.mkdir(parents=True)
    return {
        "TIRESIAS_CONTROL": str(folder),
        "TIRESIAS_SCRIPT": "0123456789abcdef",
        "SLURM_JOB_NAME": "train",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_JOB_NUM_NODES": "2",
    }


@pytest.fixture
def recorder() -> None:
    """Skips the test on a machine that cannot build the recorder."""
    if problem := build.problem():
        pytest.skip(problem)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[begin.Trial]:
    """The trials that would have been watched; no process is started."""
    trials: list[begin.Trial] = []
    monkeypatch.setattr(begin, "_start_watcher", lambda trial, env: trials.append(trial))
    return trials


@pytest.mark.parametrize(
    ("env", "gpus"),
    [
        ({"SLURM_GPUS": "6"}, 6),
        ({"SLURM_GPUS": "v100:2,a100:4"}, 6),
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_NUM_NODES": "3"}, 12),
        ({}, 0),
        ({"SLURM_GPUS": "lots"}, 0),
        ({"SLURM_GPUS_ON_NODE": "9" * 40}, 0),
    ],
)
def test_the_gpus_of_a_job(env: dict[str, str], gpus: int) -> None:
    assert begin.count_gpus(env) == gpus


@pytest.mark.usefixtures("recorder")
def test_the_first_run_of_a_kind_is_recorded_once(env: dict[str, str], watched: list[begin.Trial]) -> None:
    found = begin.begin(env | {"LD_PRELOAD": "/opt/malloc.so /opt/other.so"})
    [trial] = watched
    assert (trial.key.name, trial.key.gpus) == ("train", 8)
    assert found["LD_PRELOAD"].endswith("libtiresias_net.so:/opt/malloc.so:/opt/other.so")
    assert found["TIRESIAS_PROFILE_DIR"] == str(trial.local) == f"/tmp/tiresias-profile-{os.getuid()}-7-0"
    assert begin.begin(env) == {}, "another tsrun of the same run"
    assert len(watched) == 1


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"LD_PRELOAD": "/a,b.so"}, "this run is not profiled: srun --export cannot pass LD_PRELOAD="),
        ({"TIRESIAS_PROFILE_LIBRARIES": "/nowhere"}, "this run is not profiled: /nowhere: holds no"),
        (
            {"PATH": "/nowhere"},
            "this run is not profiled: the profiler's libraries are not built, and this host lacks make",
        ),
    ],
)
def test_one_line_reports_what_is_missing(
    env: dict[str, str],
    watched: list[begin.Trial],
    change: dict[str, str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    needs_libraries = "LD_PRELOAD" in line
    if needs_libraries and (lack := build.problem()):
        pytest.skip(lack)
    for name, value in {**({} if needs_libraries else {"XDG_CACHE_HOME": str(tmp_path)}), **change}.items():
        monkeypatch.setenv(name, value)
    assert begin.begin(env | change) == {}
    [logged] = capfd.readouterr().err.splitlines()
    assert logged.startswith(f"tiresias: {line}")


@pytest.mark.parametrize(("devices", "verbs", "is_logged"), [(1, False, True), (0, False, False), (1, True, False)])
def test_rdma_that_is_not_recorded_is_reported(
    devices: int,
    verbs: bool,
    is_logged: bool,
    env: dict[str, str],
    watched: list[begin.Trial],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "libraries"
    for name in (build.NET, build.NCCL, *([build.VERBS] if verbs else [])):
        place.mkdir(exist_ok=True)
        (place / name).touch()
    (tmp_path / "devices").mkdir()
    for each in range(devices):
        (tmp_path / "devices" / f"mlx5_{each}").mkdir()
    monkeypatch.setattr(begin, "INFINIBAND", tmp_path / "devices")
    monkeypatch.setenv(environment.PROFILE_LIBRARIES, str(place))
    assert begin.begin(env)["LD_PRELOAD"] == str(place / build.NET)
    assert ("RDMA is not recorded" in capfd.readouterr().err) is is_logged


@pytest.mark.parametrize(
    "change",
    [
        {"TIRESIAS_PROFILE": "0"},
        {"TIRESIAS_SCRIPT": ""},
        {"TIRESIAS_SCRIPT": "../../etc"},
        {"TIRESIAS_CONTROL": ""},
        {"SLURM_GPUS_ON_NODE": "1", "SLURM_JOB_NUM_NODES": "1"},
        {"LD_PRELOAD": "/a,b.so"},
        {"LD_PRELOAD": "$(x)"},
        {"TIRESIAS_PROFILE_LIBRARIES": "/nowhere"},
        {"TIRESIAS_CONTROL": "/nowhere/0/7"},
    ],
)
def test_others_are_not(
    env: dict[str, str], watched: list[begin.Trial], change: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    assert begin.begin(env | change) == {}
    assert not watched


@pytest.mark.usefixtures("recorder")
@pytest.mark.parametrize(
    ("summary", "again"),
    [(Summary("spread"), False), (Summary("unknown", trials=2), True), (Summary("unknown", trials=3), False)],
)
def test_a_kind_that_is_known_is_not_recorded_again(
    env: dict[str, str], watched: list[begin.Trial], summary: Summary, again: bool
) -> None:
    trial = begin.of_job(env)
    assert trial
    trial.profiles.mkdir()
    control.write(trial.profiles, trial.key.file, as_object(trial.key, summary))
    assert bool(begin.begin(env)) == again == bool(watched)


@pytest.mark.parametrize(
    ("words", "env", "exported", "asked"),
    [
        (["-n2", "prog"], {}, f"ALL,{PAIRS}", ["-n2", "prog"]),
        (["--export=A,B", "prog"], {}, f"ALL,{PAIRS}", [f"--export=A,B,{PAIRS}", "prog"]),
        (["--export", "NONE", "prog"], {}, f"ALL,{PAIRS}", ["--export", PAIRS, "prog"]),
        (["prog", "--export=A"], {"SLURM_EXPORT_ENV": "NONE"}, PAIRS, ["prog", "--export=A"]),
        (["prog"], {"SLURM_EXPORT_ENV": "ALL,X=1"}, f"ALL,X=1,{PAIRS}", ["prog"]),
    ],
)
def test_the_tasks_get_it_and_srun_does_not(
    words: list[str], env: dict[str, str], exported: str, asked: list[str]
) -> None:
    found = tsrun.with_export_env(env, ADDED)
    assert found["SLURM_EXPORT_ENV"] == exported
    assert "LD_PRELOAD" not in found
    assert tsrun.with_export(words, env, ADDED) == asked


def test_what_was_recorded_is_brought_and_the_recording_ends(tmp_path: Path) -> None:
    local, target = tmp_path / "tiresias-profile-0-7-1", tmp_path / "profile"
    for folder in (local, target):
        folder.mkdir()
    earlier = tmp_path / f"tiresias-profile-{os.getuid()}-7-0"
    local = local.rename(tmp_path / f"tiresias-profile-{os.getuid()}-7-1")
    earlier.mkdir()
    (local / "bad.1.2.net").write_bytes(b"no recording")
    (local / "link.1.2.net").symlink_to("/etc/passwd")
    fold(local, target)
    assert [path.name for path in local.iterdir()] == ["stop"]
    assert not list(target.iterdir())
    assert not earlier.exists(), "of an earlier run of the job"


def test_a_folder_of_another_user_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "profile"
    target.mkdir()
    other = tmp_path / "tiresias-profile-0-7-1"
    other.symlink_to(target)
    fold(other, target)
    assert not list(target.iterdir())


def test_a_run_that_sent_nothing_is_reported(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(watch, "watch", lambda trial, srun: None)
    monkeypatch.setattr(watch, "collect", lambda trial, env: [])
    monkeypatch.setattr(os, "nice", lambda more: more)
    monkeypatch.setattr(sys, "argv", ["watch", str(os.getpid())])
    assert watch.main() == 0
    assert capfd.readouterr().err.startswith("tiresias: this run is not profiled: no process sent anything")
