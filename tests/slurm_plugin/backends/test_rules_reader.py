"""Reading the rules: what is read each time, and what is read less often."""

from __future__ import annotations

import time

import pytest

from tiresias.slurm_plugin.admission.known_rules import RULES_WHILE_BLOCKED_S
from tiresias.slurm_plugin.backends.rules_reader import RulesReader

QOS = "QOS=normal(1) UsageRaw=0.0 GrpJobs=N(0) MaxWallPJ= Account Limits=No Accounts User Limits=No Users"
ROOT = "ClusterName=c Account=root UserName= Partition= ParentAccount= GrpJobs=N(0)"


class Slurm:
    """The output of Slurm's commands, with a limit per user that slurmdbd alone shows."""

    def __init__(self) -> None:
        self.limit, self.commands = "gres/gpu=2", [""]

    def read(self, *command: str) -> bytes:
        self.commands.append(" ".join(command))
        answers = {
            "config": "AccountingStorageEnforce = associations,limits,qos\n",
            "assoc_mgr": f"{ROOT}\n{QOS}\n",
            "qos": f"normal||1.0||||{self.limit}|||\n",
        }
        return next((text for word, text in answers.items() if word in command), "").encode()


def test_a_limit_that_was_lifted_blocks_no_longer_than_until_the_next_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are read again after RULES_WHILE_BLOCKED_S while one of them keeps a job waiting beside free GPUs."""
    clock, slurm = [1000.0], Slurm()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    reader = RulesReader(slurm.read)
    assert reader.rules().qos["normal"].max_tres_user == {"gres/gpu": 2}
    slurm.limit = ""
    clock[0] += RULES_WHILE_BLOCKED_S
    assert reader.rules().qos["normal"].max_tres_user == {}


def test_slurmdbd_is_not_asked_at_each_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are read before each preemption."""
    clock, slurm = [1000.0], Slurm()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    reader = RulesReader(slurm.read)
    for _ in range(60):
        reader.rules()
        clock[0] += 1.0
    assert sum(command.startswith("sacctmgr") for command in slurm.commands) == 7
    assert sum("config" in command for command in slurm.commands) == 1
