"""The order in which an aggregator serves its jobs: slots of the cycle, late steps, and a job that pushes as fast as it can."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.parameter_service.conftest import AggregatorProcess, Deployment, until
from tests.services.parameter_service.test_aggregator import Rank
from tests.services.parameter_service.test_copies_in_windows import job as hosted_job
from tiresias.services.parameter_service.aggregator.cycle_slots import MAX_CYCLE_S, CycleSlots, JobSlots
from tiresias.services.parameter_service.aggregator.execution_order import ExecutionOrder
from tiresias.services.parameter_service.messages.agent_messages import Locate, Parameters, Pull
from tiresias.services.parameter_service.messages.aggregator_messages import PlanCycle
from tiresias.services.wire.channel import frame_of
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.peer_identity import PeerIdentity, agent_identity
from tiresias.services.wire.server_loop import ServerLoop
from tiresias.services.wire.session_messages import Accepted


def slots_of_toy() -> CycleSlots:
    """Figure 4.6 of the thesis: J1 twice in a cycle of 12 with 2 of work, J2 once with 3; 5 are free."""
    slots = CycleSlots()
    slots.plan(12.0, {"J1": JobSlots(2, 2.0), "J2": JobSlots(1, 3.0)}, now=0.0)
    return slots


def test_a_step_in_its_slot_begins_at_once() -> None:
    slots = slots_of_toy()
    for now, job in ((0.0, "J1"), (2.0, "J2"), (6.0, "J1"), (12.0, "J1"), (14.0, "J2")):
        assert slots.may_begin(job, now), (now, job)
        slots.began(job, now)
        slots.ended(job)


def test_a_late_step_gets_what_the_other_slots_leave() -> None:
    slots = slots_of_toy()
    slots.began("J1", 0.0)
    slots.ended("J1")
    assert slots.may_begin("J1", 1.0), "12 - 1 leaves 2 beside 3 of J2 and 2 of its own second slot"
    assert not slots.may_begin("J1", 5.5), "6.5 leaves 1.5 beside 5"
    assert slots.may_begin("J1", 6.0), "its second slot"
    slots.began("J1", 6.0)
    slots.ended("J1")
    assert slots.may_begin("J1", 7.0), "12 - 7 leaves 2 beside 3 of J2"
    assert not slots.may_begin("J1", 7.1)
    slots.began("J2", 7.1)
    assert not slots.may_begin("J1", 7.1), "J2 runs: its work is not done"
    slots.ended("J2")
    assert slots.may_begin("J1", 10.0)
    assert not slots.may_begin("J1", 10.1)
    assert slots.next_slot_s(10.1) == pytest.approx(1.9)
    assert slots.may_begin("J1", 12.0)


@given(st.lists(st.tuples(st.sampled_from(["J1", "J2"]), st.floats(0.01, 3.0)), max_size=60))
def test_late_steps_leave_the_time_of_the_unused_slots(requests: list[tuple[str, float]]) -> None:
    """Whatever J1 requests, J2 begins in each cycle when it requests, and a late step of J1 ends with the time for J2 left."""
    slots, now, used = slots_of_toy(), 0.0, dict[tuple[str, int], int]()
    for job, pause in requests:
        now += pause
        cycle = int(now / 12.0)
        before = used.get((job, cycle), 0)
        begins = slots.may_begin(job, now)
        if job == "J2" and not before:
            assert begins
        late = job == "J1" and before >= int(now % 12.0 / 6.0) + 1
        if not begins:
            continue
        slots.began(job, now)
        now += slots.slots[job].work_s
        slots.ended(job)
        used[job, cycle] = before + 1
        if late and ("J2", cycle) not in used:
            assert (cycle + 1) * 12.0 - now >= 3.0 - 1e-6


@pytest.mark.parametrize("cycle_s", [0.0, 2 * MAX_CYCLE_S])
def test_without_a_cycle_every_step_begins(cycle_s: float) -> None:
    slots = CycleSlots()
    slots.plan(cycle_s, {"J1": JobSlots(1, cycle_s)}, 0.0)
    for _ in range(5):
        assert slots.may_begin("J1", 1.0)
        slots.began("J1", 1.0)
    assert slots.may_begin("another", 1.0)


# -- by the work done ---------------------------------------------------------------------------------------------------------


def connection_of(job: str, rank: int = 0) -> tuple[Connection, socket.socket]:
    here, there = socket.socketpair()
    made = Connection(here, job)
    made.identity = agent_identity(job, rank, 0)
    return made, there


@given(st.lists(st.tuples(st.floats(1e-6, 0.05), st.floats(1e-6, 0.05)), min_size=1, max_size=200))
def test_two_busy_jobs_get_the_same_work(costs: list[tuple[float, float]]) -> None:
    order, sockets = ExecutionOrder(lambda name: None), []
    pair = []
    for name in ("one", "two"):
        connection, there = connection_of(name)
        pair.append(connection)
        sockets += [connection.sock, there]
    done = [0.0, 0.0]
    for cost in costs:
        at = min((0, 1), key=lambda at: order.rank(pair[at]))
        order.charge(pair[at], cost[at])
        done[at] += cost[at]
        assert abs(done[0] - done[1]) <= 0.05 + 1e-9
    for each in sockets:
        each.close()


def test_an_idle_job_gets_no_credit() -> None:
    order = ExecutionOrder(lambda name: None)
    (busy, one), (idle, two) = connection_of("busy"), connection_of("idle")
    for _ in range(10):
        order.charge(busy, 1.0)
    assert order.rank(idle) == 9.0
    order.charge(idle, 2.0)
    assert order.rank(busy) < order.rank(idle)
    for each in (one, two, busy.sock, idle.sock):
        each.close()


class Delivered:
    """A handler that notes whose frames arrive; it ends the loop after the last one."""

    def __init__(self, count: int) -> None:
        self.loop: ServerLoop
        self.jobs: list[str] = []
        self._count = count

    def key_of(self, identity: PeerIdentity) -> bytes | None:
        return None

    def joined(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        return memoryview(bytearray(payload_bytes))

    def received(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        assert connection.identity is not None
        self.jobs.append(connection.identity.job)
        if len(self.jobs) == self._count:
            self.loop.stop()


def test_a_job_with_many_connections_is_served_as_one(tmp_path: Path) -> None:
    """All frames are in the sockets before the loop runs: 40 connections of one job, one of another, which is the last."""
    handler = Delivered(60)
    loop = handler.loop = ServerLoop(handler, None)
    jobs = {name: hosted_job(tmp_path / name) for name in ("many", "one")}
    loop.order = ExecutionOrder(jobs.get)
    ends = []
    for at in range(41):
        connection, there = connection_of("many" if at < 40 else "one", at % 40)
        for _ in range(1 if at < 40 else 20):
            frame = frame_of(Locate("x" * 600), 0)
            there.sendall(frame)
        ends.append(there)
        loop.call(lambda connection=connection: loop.add(connection))  # type: ignore[misc]
    thread = threading.Thread(target=loop.run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert handler.jobs[:22].count("one") == 20, (
        "the frames of the one connection come after one of the other job, at most two"
    )
    for each in ends:
        each.close()


# -- a real aggregator --------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(deployment: Deployment) -> AggregatorProcess:
    return deployment.aggregator()


def test_a_step_beyond_its_slots_waits_and_another_job_goes_on(
    deployment: Deployment, place: AggregatorProcess
) -> None:
    """Cycles of 20 s leave no time beside the slots: what is executed does not depend on how long the test takes, below that."""
    fast, steady = (Rank(deployment.job(name, 1, place)(0), place) for name in ("fast", "steady"))
    for rank in (fast, steady):
        rank.init()
    plan = PlanCycle(20.0, {"fast": 1.0, "steady": 4.0}, {"fast": 20.0, "steady": 0.25})
    for _ in range(2):
        assert deployment.request(place, plan) == Accepted()  # repeated, it changes nothing
    assert deployment.statistics(place)["slots"] == {"fast": [1, 20.0], "steady": [4, 0.25]}
    fast.push([1] * 4, 0)
    assert fast.pull(1) == Parameters("a", 1)
    fast.push([1] * 4, 1)
    fast.channel.send(Pull("a", 1, 2))
    steady.push([1] * 4, 0)
    assert steady.pull(1) == Parameters("a", 1)
    assert deployment.tensors(place, "fast")["a"]["version"] == 1
    assert deployment.request(place, PlanCycle(0.0, {}, {})) == Accepted()
    assert fast.channel.receive(fast._place) == Parameters("a", 2)


def test_a_step_waits_for_the_next_cycle_and_no_longer(deployment: Deployment, place: AggregatorProcess) -> None:
    rank = Rank(deployment.job("job", 1, place)(0), place)
    rank.init()
    deployment.request(place, PlanCycle(0.2, {"job": 1.0}, {"job": 0.2}))
    for step in range(5):
        rank.push([1] * 4, step)
        assert rank.pull(step + 1) == Parameters("a", step + 1)
    assert rank.parameters.tolist() == [-5] * 4


@pytest.mark.parametrize(
    "plan", [PlanCycle(1.0, {"a": 1.0}, {}), PlanCycle(1.0, {"a": 1.0}, {"a": -1.0}), PlanCycle(-1.0, {}, {})]
)
def test_a_wrong_cycle_is_refused(deployment: Deployment, place: AggregatorProcess, plan: PlanCycle) -> None:
    assert "a cycle has a length" in deployment.request(place, plan).text


def test_a_job_that_never_completes_a_step_uses_slots_too(deployment: Deployment, place: AggregatorProcess) -> None:
    """Tensor b is never pushed; each update of a after the first one is a step of its own."""
    rank, other = (Rank(deployment.job(name, 1, place)(0), place) for name in ("job", "other"))
    for name in ("a", "b"):
        rank.init(name, size=1 << 21)
    other.init()
    deployment.request(place, PlanCycle(20.0, {"job": 1.0, "other": 1.0}, {"job": 20.0, "other": 10.0}))
    gradient = np.ones(1 << 21, np.float32)

    def push() -> None:
        for step in range(4):
            rank.push(gradient, step)

    sender = threading.Thread(target=push)  # it waits until what it has sent is received
    sender.start()
    until(lambda: deployment.tensors(place, "job")["a"]["version"] == 2, "the second update")
    other.push([1] * 4, 0)
    assert other.pull(1) == Parameters("a", 1)
    assert deployment.tensors(place, "job")["a"]["version"] == 2
    deployment.request(place, PlanCycle(0.0, {}, {}))
    until(lambda: deployment.tensors(place, "job")["a"]["version"] == 4, "all of them, without a cycle")
    sender.join()


def test_a_flood_of_one_job_leaves_the_other_its_turns(deployment: Deployment, place: AggregatorProcess) -> None:
    """The steady job makes its steps while requests of the other one always wait; bench/parameter_service_bursts.py has times."""
    flooding, steady = deployment.job("flood", 1, place), Rank(deployment.job("steady", 1, place)(0), place)
    flood = Rank(flooding(0), place)
    names = [f"t{at}" for at in range(8)]
    for name in names:
        flood.init(name, size=1 << 18)
    steady.init()
    stop = threading.Event()
    thread = threading.Thread(target=_flood, args=(flood, names, stop))
    thread.start()
    for step in range(50):
        steady.push(np.ones(4), step)
        assert steady.pull(step + 1) == Parameters("a", step + 1)
    stop.set()
    thread.join(60)
    jobs = deployment.statistics(place)["jobs"]
    assert jobs["steady"]["tensors"]["a"]["version"] == 50
    assert sum(each["version"] for each in jobs["flood"]["tensors"].values()) > 0


def _flood(rank: Rank, names: list[str], stop: threading.Event) -> None:
    gradient, step = np.ones(1 << 18, np.float32), 0
    while not stop.is_set():
        for name in names:
            rank.push(gradient, step, name)
            rank.channel.send(Pull(name, 1, step + 1))
        for _ in names:
            rank.channel.receive(rank._place)
        step += 1
