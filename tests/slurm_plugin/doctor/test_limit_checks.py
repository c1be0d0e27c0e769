"""What the doctor reports of Slurm's limits."""

from __future__ import annotations

from dataclasses import replace

from tiresias.slurm_plugin.backends.slurm_rules import Association, Qos, SlurmRules
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.doctor.limit_checks import findings

ROOT = {("root", "", ""): Association(account="root")}
KNOWN = Qos(name="q", grp_tres={"gres/gpu:v100": 2, "license/m": 1, "mem": 9}, max_tres_user={"node": 3, "cpu": 1})
GOOD = SlurmRules(enforce=frozenset({"limits"}), qos={"q": KNOWN}, associations=ROOT)


def test_no_limits_and_known_ones_are_fine() -> None:
    assert [one.level for one in findings(SlurmRules())] == [Level.FINE]
    assert [one.level for one in findings(GOOD)] == [Level.FINE]


def test_what_cannot_be_read_is_a_risk() -> None:
    (found,) = findings(replace(GOOD, unread=("associations: slurmctld shows none to this user",)))
    assert found.level is Level.RISK
    assert "associations" in found.words
    assert "Operator" in found.remedy


def test_limits_that_the_model_does_not_contain_are_named() -> None:
    qos = {f"q{number}": Qos(name=f"q{number}", max_tres_user={"billing": 9.0}) for number in range(7)}
    users = {**ROOT, ("a", "u", ""): Association(account="a", user="u", grp_tres={"bb/x": 1.0})}
    (found,) = findings(replace(GOOD, qos=qos, associations=users))
    assert found.level is Level.ADVICE
    assert "QOS q0: billing" in found.words
    assert found.words.endswith("and 3 more")
    (found,) = findings(replace(GOOD, associations=users))
    assert "account a, user u: bb/x" in found.words
