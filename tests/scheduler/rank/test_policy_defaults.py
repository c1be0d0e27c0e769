"""`replaces`: which optional parts of a policy the simulator has to call."""

from __future__ import annotations

import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.plugin import Plugin
from tiresias.scheduler.rank.fifo import FIFO
from tiresias.scheduler.rank.gittins import GITTINS
from tiresias.scheduler.rank.las import LAS
from tiresias.scheduler.rank.plugin_policy import PluginPolicy
from tiresias.scheduler.rank.policy import Policy, Ranking, Rows, replaces
from tiresias.scheduler.rank.time_sharing import TIME_SHARING


class RanksOnly(Policy):
    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        return Ranking.of(range(len(snapshot.jobs)))


class Promotes(RanksOnly):
    def promoted(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        return jobs.waited > 10.0


class InheritsPromotion(Promotes):
    pass


@pytest.mark.parametrize(
    ("policy", "replaced"),
    [
        (LAS, {"promoted", "settled"}),
        (GITTINS, {"promoted", "settled", "drifts"}),
        (FIFO, set()),
        (TIME_SHARING, {"turn", "drifts"}),
        (RanksOnly(), set()),
        (InheritsPromotion(), {"promoted"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Policy) else "",
)
def test_parts_that_a_policy_replaces(policy: Policy, replaced: set[str]) -> None:
    parts = ["promoted", "turn"] + ["drifts", "settled"] * hasattr(policy, "settled")
    assert {part for part in parts if replaces(policy, part)} == replaced


def test_every_part_of_an_installed_policy_is_called() -> None:
    policy = PluginPolicy(Plugin("tiresias.policies", "mine", "package", RanksOnly()))
    assert replaces(policy, "promoted")
    assert replaces(policy, "turn")
