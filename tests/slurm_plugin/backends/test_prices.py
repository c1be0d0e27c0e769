"""How many calls slurmctld counts for each verb of a back end: never more than its price, which the budget is made of."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tiresias.slurm_plugin.backends import sdiag
from tiresias.slurm_plugin.backends.budget import PRICES
from tiresias.slurm_plugin.backends.interface import RequestChange

pytestmark = pytest.mark.sandbox
Site = Any  # conftest.py


def calls(site: Site) -> int:
    """Of the back end's user. A call is counted after it was answered."""
    before = -1
    while before != (found := counted(site)):
        before = found
        time.sleep(0.05)
    return found


def counted(site: Site) -> int:
    return sdiag.load(site.cluster.run(["sdiag"]).stdout, site.cluster.rootfs.uid("slurm")).calls


def test_no_verb_costs_more_than_its_price(site: Site) -> None:
    backend = site.backend
    backend.snapshot()  # what it asks once only
    running, waiting = site.running("--gpus=1").id, site.submit("--hold", "--gpus=1")
    blocked = site.submit("--hold", "--gpus=1", "--begin=now+1hour")
    verbs = {
        "version": backend.version, "topology": backend.topology, "load": lambda: backend.load(0), "snapshot": backend.snapshot,
        "job": lambda: backend.job(running), "hold": lambda: backend.hold(waiting), "lift": lambda: backend.lift(blocked),
        "prioritize": lambda: backend.prioritize(blocked),
        "unpin": lambda: backend.unpin(waiting, RequestChange(nodes=(1, 0), required=(), excluded=())),
        "pin": lambda: backend.pin(waiting, RequestChange(nodes=(1, 1), required=("gpu02",))),
        "signal": lambda: backend.signal(running, "USR2"), "requeue": lambda: backend.requeue(waiting),
        "release": lambda: backend.release(waiting), "begin_now": lambda: backend.begin_now(blocked),
        "booted": backend.booted, "rules": backend.rules, "stated_gpus": lambda: backend.stated_gpus(waiting),
        "batch_script": lambda: backend.batch_script(waiting),
        "comments": lambda: backend.comments([int(running), int(blocked)]),
        "set_comment": lambda: backend.set_comment([blocked], "AdminComment", "Tiresias: 2nd of 3"),
    }  # fmt: skip
    prices = PRICES[backend.name]
    assert verbs.keys() == prices.keys()
    made: dict[str, int] = {}
    for name, verb in verbs.items():
        if name == "requeue":
            backend.lift(waiting)
            site.wait(waiting, lambda job: job.state == "RUNNING")
        if name == "release":
            site.wait(waiting, lambda job: job.state == "PENDING" and not job.completing)
            backend.hold(waiting)
        before = calls(site)
        verb()
        made[name] = calls(site) - before
    assert not {name: (cost, prices[name]) for name, cost in made.items() if not 0 < cost <= prices[name]}, made
