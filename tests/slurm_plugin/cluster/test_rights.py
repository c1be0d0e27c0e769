"""Users with rights on other users' jobs, by slurm.conf and accounting."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tiresias.slurm_plugin.cluster.rights import Rights, masters, read_rights

UNPRIVILEGED = pwd.getpwnam("nobody").pw_uid
ACCOUNTED = {"SlurmUser": "slurm(64030)", "AccountingStorageType": "accounting_storage/slurmdbd"}


@pytest.fixture
def sacctmgr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, whose lines the test writes."""
    program = tmp_path / "sacctmgr"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def test_root_and_slurm_user_may_always() -> None:
    assert masters({"SlurmUser": "slurm(64030)"}) == {0, 64030}
    assert masters({}) == {0}
    rights = read_rights({"SlurmUser": "slurm(64030)", "AccountingStorageType": "(null)"})
    assert rights == Rights(frozenset({0, 64030}))
    assert rights.why_powerless(64030) == ""
    assert "add user nobody account=root adminlevel=operator" in rights.why_powerless(UNPRIVILEGED)


def test_operators_and_administrators_may(sacctmgr: Path) -> None:
    sacctmgr.write_text(
        "#!/bin/sh\nprintf 'root|Administrator\\nnobody|Operator\\ndaemon|None\\nno-such-user|Operator\\n'\n"
    )
    rights = read_rights(ACCOUNTED)
    assert rights.operators == {0, UNPRIVILEGED}
    assert rights.overseers == {0, 64030, UNPRIVILEGED}
    assert rights.why_powerless(UNPRIVILEGED) == ""
    reported = rights.why_powerless(pwd.getpwnam("daemon").pw_uid)
    assert "sacctmgr modify user daemon set adminlevel=operator" in reported
    assert "\n" not in reported


@pytest.mark.parametrize("trouble", ["echo 'sacctmgr: error: down' >&2; exit 1", "sleep 60"])
def test_without_an_answer_of_accounting_no_user_is_refused_and_no_user_sees_more(sacctmgr: Path, trouble: str) -> None:
    sacctmgr.write_text(f"#!/bin/sh\n{trouble}\n")
    rights = read_rights(ACCOUNTED, deadline=1.0)
    assert rights.unknown.startswith("the Operators are not known: ")
    assert rights.overseers == {0, 64030}
    assert rights.why_powerless(UNPRIVILEGED) == ""
