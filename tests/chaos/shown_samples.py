"""Samples of the queue as the judges of virtual clusters read them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.chaos.configurations import Stretch
from tests.chaos.guarantees import Shown
from tests.chaos.idle import MANAGED
from tests.chaos.samples import Sample
from tiresias.scheduler.host_lists import hosts


def within(stretch: Stretch, shown: Sequence[tuple[float, Shown]]) -> list[Shown]:
    """Return the samples of a time. shown: with the epoch second of the cycle that the controller published."""
    return [one for cycle, one in shown if stretch.covers(cycle, one.time)]


def shown_by(sample: Sample) -> Shown:
    """Jobs that wait for a reason that the controller cannot end, such as a hold by Slurm, are left out."""
    pending = {one.name for one in sample.waiting}
    waiting = frozenset(one.name for one in sample.waiting if one.reason in MANAGED)
    guaranteed = {
        sample.names[job]: hosts(sample.nodes[job])
        for job in sample.guaranteed
        if job in sample.nodes and job in sample.names
    }
    return Shown(sample.time, waiting, frozenset(sample.names.values()) - pending, guaranteed)
