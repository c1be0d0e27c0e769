"""The variables that go with a job, from the configuration of the site, and those that tsrun passes to the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.protocol import site_configuration
from tiresias.slurm_plugin.config import Paths
from tiresias.wrappers import settings, tsrun


def test_settings_come_from_the_environment_then_the_file_then_home(tmp_path: Path) -> None:
    file = tmp_path / "tiresias.toml"
    assert settings.of_job({"HOME": "/home/u"}, file) == {
        "TIRESIAS_CONTROL_ROOT": "/home/u/.tiresias/control",
        "TIRESIAS_CHECKPOINT_ROOT": "/home/u/.tiresias/checkpoints",
    }
    file.write_text('[paths]\ncontrol = "/c"\ncheckpoints = "/k"\n[preemption]\nsignal = "USR1"\n')
    from_file = {"TIRESIAS_CONTROL_ROOT": "/c", "TIRESIAS_CHECKPOINT_ROOT": "/k", "TIRESIAS_SIGNAL": "USR1"}
    assert settings.of_job({"HOME": "/home/u"}, file) == from_file
    given = {"TIRESIAS_CONTROL_ROOT": "/mine", "TIRESIAS_PARK_TIMEOUT": "5"}
    assert settings.of_job({"HOME": "/home/u", **given}, file) == from_file | given


@pytest.mark.parametrize(("written", "passed"), [("[93, 3]", "93,3"), ("[]", "none")])
def test_final_codes_go_with_the_job(tmp_path: Path, written: str, passed: str) -> None:
    (tmp_path / "tiresias.toml").write_text(f"[preemption]\nfinal_codes = {written}\ndeadline = 30\n")
    found = settings.of_job({"HOME": "/h"}, tmp_path / "tiresias.toml")
    assert (found["TIRESIAS_FINAL_CODES"], found["TIRESIAS_SAVE_DEADLINE"]) == (passed, "30")


def test_drop_ins_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tiresias.toml"
    file.write_text('mode = "shadow"\n[paths]\ncontrol = "/c"\ncheckpoints = "/k"\n')
    (tmp_path / "conf.d").mkdir()
    for name, text in (
        ("1", '[paths]\ncontrol = "/first"\n'),
        ("2", 'mode = "exact"\n[paths]\ncontrol = "/last"\n'),
        ("3", "["),
    ):
        (tmp_path / "conf.d" / f"{name}.toml").write_text(text)
    assert site_configuration.read(file) == {"mode": "exact", "paths": {"control": "/last", "checkpoints": "/k"}}


@pytest.mark.parametrize("text", ["not toml [", "\x00"])
def test_a_configuration_that_cannot_be_read_does_not_keep_a_user_from_submitting(tmp_path: Path, text: str) -> None:
    (tmp_path / "tiresias.toml").write_text(text)
    assert (
        settings.of_job({"HOME": "/h"}, tmp_path / "tiresias.toml")["TIRESIAS_CONTROL_ROOT"] == "/h/.tiresias/control"
    )


@pytest.mark.parametrize("text", ["", "paths = 3", "[paths]\ncontrol = 5"])
def test_a_site_that_names_no_folders_has_those_of_its_controller(tmp_path: Path, text: str) -> None:
    (tmp_path / "tiresias.toml").write_text(text)
    found = settings.of_job({"HOME": "/h"}, tmp_path / "tiresias.toml")
    assert found["TIRESIAS_CONTROL_ROOT"] == str(Paths().control)
    assert found["TIRESIAS_CHECKPOINT_ROOT"] == str(Paths().checkpoints)


@pytest.mark.parametrize(("written", "passed"), [("100", "100"), ("12.5", "12.5"), ("0", None), ('"fast"', None)])
def test_the_speed_of_the_network_goes_with_the_job(tmp_path: Path, written: str, passed: str | None) -> None:
    (tmp_path / "tiresias.toml").write_text(f"[placement]\nbandwidth = {written}\n")
    found = settings.of_job({"HOME": "/h"}, tmp_path / "tiresias.toml")
    assert found.get("TIRESIAS_PLACEMENT_BANDWIDTH") == passed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--export=NONE", "x"], ["--export=TIRESIAS_CONTROL,TIRESIAS_RUN_ID", "x"]),
        (["--export", "A,B", "x"], ["--export", "A,B,TIRESIAS_CONTROL,TIRESIAS_RUN_ID", "x"]),
        (["--export=ALL,A=1", "x"], ["--export=ALL,A=1", "x"]),
        (["-n2", "x", "--export=NONE"], ["-n2", "x", "--export=NONE"]),
        (["-n", "2", "--export=NONE", "x"], ["-n", "2", "--export=TIRESIAS_CONTROL,TIRESIAS_RUN_ID", "x"]),
    ],
)
def test_ranks_get_the_jobs_variables(words: list[str], expected: list[str]) -> None:
    assert tsrun.with_export(words, {"TIRESIAS_CONTROL": "/c", "TIRESIAS_RUN_ID": "1"}) == expected


def test_ranks_of_a_job_that_exports_nothing() -> None:
    env = {"SLURM_EXPORT_ENV": "NONE", "TIRESIAS_CONTROL": "/c"}
    assert tsrun.with_export_env(env)["SLURM_EXPORT_ENV"] == "TIRESIAS_CONTROL"
    assert tsrun.with_export_env({"TIRESIAS_CONTROL": "/c"}) == {"TIRESIAS_CONTROL": "/c"}
