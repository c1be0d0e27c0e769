"""The environment variables that the programs started by the controller inherit from its own environment."""

from __future__ import annotations

import pytest

from tiresias.slurm_plugin.backends import processes

# Each of these changes what a dynamic linker, a shell, Python or a Slurm command does.
HOSTILE = [
    "LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "IFS", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "SLURM_CLUSTERS",
    "SQUEUE_FORMAT", "SQUEUE_ALL", "SINFO_FORMAT", "SCANCEL_USER", "SCANCEL_STATE", "SLURM_JOB_ID", "SLURM_TIME_FORMAT",
    "SLURM_JSON", "LANG", "LC_MESSAGES", "http_proxy", "BASH_FUNC_scontrol%%",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_changes_programs_does_not_reach_them(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "/tmp/evil")
    reported = processes.run(["/usr/bin/env"], 10.0).stdout.decode().splitlines()
    assert not [line for line in reported if "evil" in line]


def test_nothing_but_the_list_reaches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("ANYTHING", "else")
    reported = {line.partition("=")[0] for line in processes.run(["/usr/bin/env"], 10.0).stdout.decode().splitlines()}
    assert {"PATH", "LC_ALL"} <= reported
    assert reported <= {*processes._KEPT, "LC_ALL", "SLURM_BITSTR_LEN"}
