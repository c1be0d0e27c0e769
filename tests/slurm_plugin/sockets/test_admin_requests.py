"""The users who may send orders, the outcome of an order, and the effect of a refused one."""

from __future__ import annotations

import logging
import os
import time
from typing import Any

import pytest

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets.admin_requests import MAX_REASON_CHARACTERS, AdminRequests
from tiresias.slurm_plugin.sockets.peer import Peer

ME = Peer(os.getpid(), os.geteuid(), os.getegid())
STRANGER = Peer(4711, os.geteuid() + 1000, 100)
VIEW = {"a": "view"}


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
def orders(woken: list[str]) -> AdminRequests:
    return AdminRequests(lambda request, peer: VIEW, lambda: woken.append("woken"))


def test_an_order_is_taken_then_done(orders: AdminRequests, woken: list[str]) -> None:
    number = orders.answer({"op": "pause", "reason": "tests"}, ME)["order"]
    assert woken == ["woken"]
    assert orders.answer({"op": "outcome", "order": number}, ME) == {"outcome": None}
    [order] = orders.take()
    assert (order.op, order.reason, order.release) == ("pause", "tests", False)
    assert orders.take() == []
    orders.done(order, "is paused")
    assert orders.answer({"op": "outcome", "order": number}, ME) == {"outcome": "is paused"}


def test_a_failed_order_reports_the_reason(orders: AdminRequests) -> None:
    number = orders.answer({"op": "pause"}, ME)["order"]
    orders.fail(orders.take()[0], TiresiasError("the disk is full"))
    with pytest.raises(TiresiasError, match="the disk is full"):
        orders.answer({"op": "outcome", "order": number}, ME)


def test_a_controller_that_was_started_since_has_no_outcome(orders: AdminRequests) -> None:
    number = orders.answer({"op": "reload"}, ME)["order"]
    orders.done(orders.take()[0], "reloaded: nothing changed")
    while int(time.time() * 1000) <= number:
        pass  # a controller takes longer than a millisecond to start
    later = AdminRequests(lambda request, peer: VIEW, lambda: None)
    assert later.give("reload", "root") > number
    later.done(later.take()[0], "reloaded: all changed")
    with pytest.raises(TiresiasError, match="started since the order"):
        later.answer({"op": "outcome", "order": number}, ME)
    assert later.answer({"op": "outcome", "order": 0}, ME) == {"outcome": None}, "`tiresias stop` waits for its end"


def test_orders_keep_their_order(orders: AdminRequests) -> None:
    for op in ("pause", "resume", "stop"):
        orders.answer({"op": op}, ME)
    assert [one.op for one in orders.take()] == ["pause", "resume", "stop"]


@pytest.mark.parametrize("op", ["pause", "resume", "stop", "outcome"])
def test_strangers_are_refused(
    orders: AdminRequests, woken: list[str], op: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            with pytest.raises(TiresiasError, match=rf"{op} is refused: only root and the controller's own user"):
                orders.answer({"op": op, "order": 1, "uid": 0}, STRANGER)
    assert (orders.take(), woken) == ([], [])
    assert [one.getMessage() for one in caplog.records] == [  # once a minute, however often it is tried
        f"uid {STRANGER.uid} (pid 4711) may not order {op}: refused"
    ]


@pytest.mark.parametrize("op", ["status", "explain", "Pause", "stop ", None, 3, ["stop"]])
def test_all_else_goes_to_the_views(orders: AdminRequests, op: Any) -> None:
    assert orders.answer({"op": op}, STRANGER) == VIEW


@pytest.mark.parametrize(
    "reason", ["two\nlines", "\x1b[2J", "x" * 10_000, 7, None, ["a"], "\N{RIGHT-TO-LEFT OVERRIDE}"]
)
def test_a_reason_is_one_harmless_line(orders: AdminRequests, reason: Any) -> None:
    orders.answer({"op": "pause", "reason": reason}, ME)
    [order] = orders.take()
    assert order.reason.isprintable()
    assert len(order.reason) <= MAX_REASON_CHARACTERS


@pytest.mark.parametrize("release", [True, False, "yes", 1, None])
def test_only_true_means_release(orders: AdminRequests, release: Any) -> None:
    orders.answer({"op": "stop", "release": release}, ME)
    assert orders.take()[0].release is (release is True)
