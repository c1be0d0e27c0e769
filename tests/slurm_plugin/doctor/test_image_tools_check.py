"""What the doctor reports of DMTCP and CRIU on a host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.doctor import image_tools_check


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, version: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{version}'\n")
    (folder / name).chmod(0o755)


def test_a_host_without_usable_tools(place: Path) -> None:
    install(place, "criu", "Version: 3.17.1")
    found = image_tools_check.finding(here_only=True)
    assert found.level is Level.ADVICE
    assert found.remedy
    assert found.words == (
        f"{os.uname().nodename}: DMTCP cannot be used: dmtcp_launch is not in PATH; "
        f"CRIU 3.17.1 cannot be used: {place}/criu is older than 4.0: Version: 3.17.1"
    )


def test_a_host_with_dmtcp(place: Path) -> None:
    for name in ("dmtcp_launch", "dmtcp_coordinator", "dmtcp_command", "dmtcp_restart"):
        install(place, name, f"{name} (DMTCP) 4.2.0")
    install(place, "criu", "Version: 3.17.1")
    found = image_tools_check.finding(here_only=False)
    assert found.level is Level.FINE
    assert found.words.startswith(f"{os.uname().nodename}: DMTCP 4.2.0 works; CRIU 3.17.1 cannot be used: ")
    assert found.words.endswith(" (for a node: srun tiresias doctor --node)")


@pytest.mark.parametrize("printed", ["", "[]", "3", '{"a": 1}', '{"a": {"version": "1"}}'])
def test_output_that_is_none(printed: str) -> None:
    found = image_tools_check.finding(True, (sys.executable, "-c", f"print({printed!r})"))
    assert found.level is Level.ADVICE
    assert found.words.startswith("not checked: ")
