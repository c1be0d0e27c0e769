"""Each line of slurm.conf that matters, and what a wrong one is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.cluster import slurm_conf_checks
from tiresias.slurm_plugin.cluster.finding import Level

GOOD = {
    "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE_MEMORY", "GresTypes": "gpu,shard", "JobRequeue": "1",
    "SchedulerParameters": "bf_interval=30,disable_job_shrink", "MinJobAge": "300 sec", "PreemptType": "(null)",
    "DefMemPerCPU": "2000", "AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageTRES": "cpu,mem,gres/gpu",
    "JobSubmitPlugins": "lua", "EpilogSlurmctld": "/etc/tiresias/poke.sh", "PrologSlurmctld": "(null)", "KillWait": "30 sec",
}  # fmt: skip


def test_a_good_one_has_nothing_to_mend() -> None:
    assert {found.level for found in slurm_conf_checks.findings(GOOD)} == {Level.FINE}
    assert not list(slurm_conf_checks.risks(GOOD))


@pytest.mark.parametrize(
    ("name", "value", "level", "about"),
    [
        ("SelectType", "select/linear", Level.BLOCKS, "SelectType"),
        ("GresTypes", "(null)", Level.BLOCKS, "GresTypes"),
        ("JobRequeue", "0", Level.RISK, "JobRequeue"),
        ("SchedulerParameters", "bf_interval=30", Level.RISK, "disable_job_shrink"),
        ("MinJobAge", "2 sec", Level.RISK, "MinJobAge"),
        ("PreemptType", "preempt/partition_prio", Level.RISK, "PreemptType"),
        ("DefMemPerCPU", "UNLIMITED", Level.ADVICE, "DefMemPer..."),
        ("AccountingStorageType", "(null)", Level.ADVICE, "accounting"),
        ("AccountingStorageTRES", "cpu,mem", Level.ADVICE, "accounting"),
        ("JobSubmitPlugins", "(null)", Level.ADVICE, "JobSubmitPlugins"),
        ("EpilogSlurmctld", "(null)", Level.ADVICE, "EpilogSlurmctld"),
        ("PrologSlurmctld", "/usr/local/sbin/prolog", Level.ADVICE, "PrologSlurmctld"),
        ("KillWait", "600 sec", Level.ADVICE, "KillWait"),
    ],
)
def test_a_wrong_line_is_the_only_finding_and_has_a_remedy(name: str, value: str, level: Level, about: str) -> None:
    (found,) = [one for one in slurm_conf_checks.findings(GOOD | {name: value}) if one.level is not Level.FINE]
    assert (found.level, found.about) == (level, about)
    assert found.words
    assert found.remedy
    assert len(list(slurm_conf_checks.risks(GOOD | {name: value}))) == (level >= Level.RISK)


@given(st.dictionaries(st.sampled_from(sorted(GOOD)), st.text(max_size=30)))
def test_any_configuration_has_a_finding_for_each_line(config: dict[str, str]) -> None:
    found = slurm_conf_checks.findings(config)
    assert len(found) == 12
    assert all(bool(one.remedy) == (one.level is not Level.FINE) for one in found)
