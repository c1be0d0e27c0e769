"""A page drawn of the answer for one screen is the page drawn of the whole answer, and shows nothing that is hidden."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.slurm_plugin.sockets.test_publication import NODE, NOW, Sight
from tiresias.durable.leadership import Leadership
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.privacy import Privacy
from tiresias.slurm_plugin.sockets.publication import Publication, Publisher
from tiresias.slurm_plugin.sockets.screen_answers import MAX_KEPT
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.views.status import render_status
from tiresias.slurm_plugin.views.user_filter import listing_of, with_decisions_of

USERS = {"alice": 1001, "bob": 1002, "chen": 1003}
ROOT, ALICE = Peer(1, 0, 0), Peer(1, USERS["alice"], 1)
QUICK = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCREENS = {"lines": st.integers(2, 70), "cells": st.integers(40, 220)}


class LargeSight(Sight):
    """70 nodes, 140 jobs that run there, 10 unmanaged ones, 100 that wait, and 5 that their owners hold."""

    def __init__(self, running: Callable[..., SlurmJob], pending: Callable[..., SlurmJob]) -> None:
        self.nodes = tuple(replace(NODE, name=f"gpu{number:02}") for number in range(70))
        names = list(USERS)

        def owned(job: SlurmJob, number: int) -> SlurmJob:
            user = names[number % 3]
            return replace(job, id=str(number), raw_id=number, name=f"{user}s-{number}", user=user, uid=USERS[user])

        def share(number: int, gpus: int) -> tuple[NodeShare, ...]:
            return (NodeShare(f"gpu{number // 2 % 70:02}", gpus, gpus, 100),)

        one = [owned(running(40_000 + n, gpus=1, cpus=1, shares=share(n, 1)), n) for n in range(140)]
        other = [
            replace(owned(running(40_000, gpus=1, cpus=1, shares=share(14 * n, 1)), 500 + n), partition="other")
            for n in range(10)
        ]
        waits = [owned(pending(gpus=2, cpus=2, submit_time=49_000 + n, priority=1), 200 + n) for n in range(100)]
        held = [
            owned(pending(priority=0, reason="JobHeldUser", gpus=1, submit_time=48_000 + n), 300 + n) for n in range(5)
        ]
        self.jobs = (*one, *other, *waits, *held)


@pytest.fixture
def newest(
    journal: Journal, leadership: Leadership, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob]
) -> Publication:
    site = Site("cluster", "gpu", frozenset({"gpu"}), ())
    sight: Any = LargeSight(running, pending)
    one = Controller(Config(), sight, journal, leadership, site, lambda: NOW)
    one.cycle()
    found = one.publisher._newest
    assert found is not None
    return found


def publisher(journal: Journal, newest: Publication, *private: str) -> Publisher:
    one = Publisher(journal.path, Privacy(frozenset(private), frozenset({0})))
    one.publish(newest)
    return one


def page(status: Any, listing: Any, lines: int, cells: int) -> str:
    out = Console(file=io.StringIO(), width=cells, height=lines, color_system="truecolor", record=True)
    out.print(render_status(status, cells, lines, NOW, listing))
    return out.export_text(styles=True)


@pytest.mark.parametrize("private", [(), ("jobs",), ("nodes",), ("usage", "nodes")])
@QUICK
@given(user=st.sampled_from(["", *USERS, "dora"]), peer=st.sampled_from([ROOT, ALICE]), **SCREENS)
def test_a_page_shows_what_the_whole_shows(
    journal: Journal, newest: Publication, private: tuple[str, ...], user: str, peer: Peer, lines: int, cells: int
) -> None:
    answers = publisher(journal, newest, *private)
    whole: Any = answers.answer({"op": "status"}, peer)
    screen: Any = answers.answer({"op": "status", "lines": lines, "cells": cells, "user": user}, peer)
    listing = listing_of(screen, user)
    drawn = {job for node in screen["nodes"] for job, _ in node["allocations"]}
    assert drawn <= listing.symbols.keys()
    same_letters = replace(
        listing_of(whole, user), symbols=listing.symbols
    )  # of the whole other jobs have letters, too
    assert page(screen, listing, lines, cells) == page(with_decisions_of(whole, user), same_letters, lines, cells)
    assert len(screen["jobs"]) + len(screen["blocked"]) <= lines


@QUICK
@given(user=st.sampled_from(["", *USERS]), **SCREENS)
def test_jobs_of_others_are_hidden(journal: Journal, newest: Publication, user: str, lines: int, cells: int) -> None:
    request = {"op": "status", "lines": lines, "cells": cells, "user": user}
    text = json.dumps(publisher(journal, newest, "jobs").answer(request, ALICE))
    assert "bob" not in text
    assert "chen" not in text
    without_nodes: Any = publisher(journal, newest, "nodes", "jobs").answer(request, ALICE)
    assert (without_nodes["nodes"], without_nodes["rest"]["holders"], without_nodes["rest"]["gpus"]) == ([], [], 0)
    mine: Any = publisher(journal, newest, "jobs").answer(request, ALICE)
    assert (user in ("bob", "chen")) or mine["jobs"]


def test_all_are_counted(journal: Journal, newest: Publication) -> None:
    screen: Any = publisher(journal, newest).answer({"op": "status", "lines": 10, "cells": 80}, ROOT)
    rest = screen["rest"]
    assert [job["id"] for job in screen["jobs"]] == [str(number) for number in range(10)]
    assert (rest["on_nodes"], rest["waiting"], rest["blocked"], rest["all_blocked"]) == (130, 100, 5, 5)
    assert rest["nodes"] == 70 - len(screen["nodes"]) > 0
    assert rest["gpus"] == 4 * rest["nodes"]
    shown = sum(count for node in screen["nodes"] for _, count in node["allocations"])
    assert rest["managed_gpus"] + shown == 140
    assert rest["other_gpus"] + sum(node["other_gpus"] for node in screen["nodes"]) == 10


def test_answers_are_bounded(journal: Journal, newest: Publication) -> None:
    answers = publisher(journal, newest)
    first = answers.answer({"op": "status", "lines": 10}, ROOT)
    for cells in range(40, 40 + 2 * MAX_KEPT):
        answers.answer({"op": "status", "lines": 10, "cells": cells}, ROOT)
    assert len(answers._screens._kept) <= MAX_KEPT
    assert answers.answer({"op": "status", "lines": 10}, ROOT) == first
    huge: Any = answers.answer({"op": "status", "lines": 10**30, "cells": 10**30}, ROOT)
    assert len(huge["jobs"]) == 240


@pytest.mark.parametrize(
    "wrong", [{"lines": "10"}, {"lines": 0}, {"lines": -1}, {"lines": True}, {"lines": 10, "cells": None},
              {"lines": 10, "user": 3}, {"lines": [1]}],
)  # fmt: skip
def test_a_wrong_request_is_refused(journal: Journal, newest: Publication, wrong: dict[str, Any]) -> None:
    with pytest.raises(TiresiasError, match="one screen"):
        publisher(journal, newest).answer({"op": "status", **wrong}, ROOT)
