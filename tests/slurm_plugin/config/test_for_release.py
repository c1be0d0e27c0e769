"""Holds are lifted with whatever of the configuration can be read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tiresias.slurm_plugin.config import Config, load
from tiresias.slurm_plugin.config.for_release import load_for_release

GOOD = 'mode = "exact"\npartitions = ["a", "b"]\nbackend = "commands"\nperiod = 7\n[paths]\nstate = "/shared/state"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "tiresias.toml"
    file.write_text(GOOD)
    return file


def test_without_a_mistake_it_is_the_configuration(file: Path) -> None:
    assert load_for_release(file).config == load(file, {}).config
    assert load_for_release(file, {"mode": "shadow"}).config.mode == "shadow"


@pytest.mark.parametrize(
    "mistake", ["run = 3\n", "[policy]\nmin_run = -1\n", "[polcy]\n", "[policy.partitions.c]\nmin_run = 1\n"]
)
def test_a_mistake_costs_one_option(file: Path, mistake: str, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(GOOD + mistake)
    with caplog.at_level(logging.WARNING):
        config = load_for_release(file).config
    assert (config.mode, config.partitions, config.backend, config.period) == ("exact", ("a", "b"), "commands", 7.0)
    assert (str(config.paths.state), config.paths.run) == ("/shared/state", Config().paths.run)
    assert len(caplog.messages) == 1
    assert "the holds are lifted with the options that can be read" in caplog.text


@pytest.mark.parametrize("text", ["mode = ", "\x00", None])
def test_what_is_no_configuration_leaves_the_defaults(file: Path, text: str | None) -> None:
    file.unlink()
    if text is not None:
        file.write_text(text)
    assert load_for_release(file).config == Config()
