"""When Slurm's rules are read again, and what counts while they cannot be."""

from __future__ import annotations

from dataclasses import replace

from tiresias.slurm_plugin.admission.known_rules import RULES_S, RULES_WHILE_BLOCKED_S, KnownRules
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable
from tiresias.slurm_plugin.backends.slurm_rules import License, LimitUsage, Qos, Reservation, SlurmRules

RULES = SlurmRules(
    time=1.0,
    qos={"small": Qos(name="small", grp_jobs=2, usage=LimitUsage(jobs=1))},
    licenses={"cad": License("cad", total=4, used=1, free=3)},
    reservations=(Reservation("service", 100.0, 200.0, ("gpu01",)),),
)


class Slurm:
    """What it answers next."""

    def __init__(self) -> None:
        self.rules, self.is_down, self.asked, self.changes = RULES, False, 0, 0

    def read(self) -> SlurmRules:
        self.asked += 1
        if self.is_down:
            raise SlurmUnavailable("slurmctld does not answer")
        return self.rules

    def changed(self) -> None:
        self.changes += 1


def test_rules_are_read_once_a_minute_and_sooner_where_a_preemption_depends_on_them() -> None:
    slurm = Slurm()
    known = KnownRules(slurm.read, slurm.changed)
    assert [known.refresh(now) for now in (1000.0, 1001.0, 1000.0 + RULES_S)] == [True, False, True]
    assert known.refresh(1011.0 + RULES_S, age=10.0)
    assert slurm.asked == 3
    assert known.refresh(500.0), "the clock was set back"


def test_rules_are_read_sooner_while_one_keeps_a_job_waiting_beside_free_gpus() -> None:
    slurm = Slurm()
    known = KnownRules(slurm.read, slurm.changed)
    known.refresh(1000.0)
    known.watch(True)
    assert known.due == 1000.0 + RULES_WHILE_BLOCKED_S
    assert [known.refresh(now) for now in (1009.0, 1010.0, 1019.0)] == [False, True, False]
    known.watch(False)
    assert [known.refresh(now) for now in (1021.0, 1070.0)] == [False, True]


def test_use_of_a_limit_is_no_change_of_a_rule() -> None:
    slurm = Slurm()
    known = KnownRules(slurm.read, slurm.changed)
    known.refresh(1000.0)
    slurm.rules = replace(
        RULES,
        time=2.0,
        qos={"small": Qos(name="small", grp_jobs=2, usage=LimitUsage(jobs=2))},
        licenses={"cad": License("cad", total=4, used=4, free=0)},
        reservations=(Reservation("service", 100.0, 200.0, ("gpu01",), state="ACTIVE"),),
    )
    known.refresh(2000.0)
    assert slurm.changes == 1, "that was the first reading"
    slurm.rules = replace(RULES, qos={"small": Qos(name="small", grp_jobs=3)})
    known.refresh(3000.0)
    assert slurm.changes == 2


def test_rules_that_cannot_be_read_keep_their_last_values_with_an_alarm() -> None:
    slurm = Slurm()
    known = KnownRules(slurm.read, slurm.changed)
    known.refresh(1000.0)
    slurm.is_down = True
    assert not known.refresh(2000.0)
    assert known.rules is RULES
    assert "slurmctld does not answer" in known.alarms[0]
    slurm.is_down = False
    assert known.refresh(3000.0)
    assert known.alarms == []
