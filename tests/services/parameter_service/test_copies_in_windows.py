"""When tensors are copied: idle windows, the pace of copies, the order of the migration thread, and the memory of copies."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.services.parameter_service.conftest import Deployment, until
from tests.services.parameter_service.test_aggregator import Rank
from tiresias.services.parameter_service.aggregator.copy_pace import FIRST_RATE, WINDOW_SHARE, CopyPace
from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob, JobEvents
from tiresias.services.parameter_service.aggregator.idle_window import IdleWindow
from tiresias.services.parameter_service.aggregator.memory_pages import free_private, free_shared, touch
from tiresias.services.parameter_service.aggregator.migration_queue import HELD_S, MigrationQueue, Urgency
from tiresias.services.parameter_service.messages.agent_messages import Parameters
from tiresias.services.parameter_service.messages.aggregator_messages import AdoptJob, MigrateTensor
from tiresias.services.wire.session_messages import Accepted


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def job(folder: Path) -> HostedJob:
    events = JobEvents(lambda job, copy: None, lambda job, copy: None)
    return HostedJob(folder, AdoptJob("job", "0" * 64, 2, 1 << 30), events)


def test_a_window_is_expected_to_be_as_long_as_the_shortest_of_the_last_ones() -> None:
    window = IdleWindow(clock := Clock())
    assert (window.is_open, window.expected_s) == (True, 0.0)
    window.close()  # the first push ends no measured window
    for length in (9.0, 3.0, 5.0, 4.0, 6.0, 7.0):
        window.open()
        clock.now += length
        window.close()
        window.close()
    assert (window.is_open, window.expected_s) == (False, 4.0)


@given(st.lists(st.integers(1, 10**9), max_size=20), st.floats(0, 10))
def test_the_copies_of_a_window_fit_in_it_or_there_is_one(sizes: list[int], window_s: float) -> None:
    pace, due = CopyPace(), list[int]()
    for size in sizes:
        if pace.admits(size, window_s):
            pace.due(size)
            due.append(size)
    assert len(due) == min(len(sizes), 1) or sum(due) <= WINDOW_SHARE * window_s * FIRST_RATE


def test_the_measured_rate_counts_and_a_failed_copy_does_not() -> None:
    pace = CopyPace()
    pace.due(10**8)
    assert not pace.admits(10**8, 1.0)
    for _ in range(50):
        pace.due(10**9)
        pace.ended(10**9, 0.5)
    assert pace.admits(10**9, 1.0)  # 2 GB/s
    pace.due(10**9)
    pace.ended(10**9)
    pace.ended(10**8)
    assert pace.admits(10**9, 1.0)


def test_commits_come_first_and_copies_wait_for_the_window(tmp_path: Path) -> None:
    queue, training = MigrationQueue(clock := Clock()), job(tmp_path)
    training.window.close()
    queue.put_in_window(Urgency.PREPARE, training, "prepare")
    queue.put_in_window(Urgency.COPY, training, "copy")
    queue.put(Urgency.COPY, "copy of another job")
    queue.put(Urgency.COMMIT, "commit")
    assert [queue.next(), queue.next()] == ["commit", "copy of another job"]
    training.window.open()
    queue.opened(training)
    training.window.close()  # the copy is due all the same, the preparation waits for the next window
    assert queue.next() == "copy"
    queue.put(Urgency.COMMIT, "again", after_s=1.0)
    training.window.open()
    assert queue.next() == "prepare"
    clock.now += 1.0
    assert queue.next() == "again"
    queue.end()
    assert queue.next() is None


def test_a_task_waits_for_a_window_within_a_limit(tmp_path: Path) -> None:
    queue, training = MigrationQueue(clock := Clock()), job(tmp_path)
    training.window.close()
    queue.put_in_window(Urgency.PREPARE, training, "prepare")
    queue.put_in_window(Urgency.COPY, training, "copy")
    clock.now += HELD_S
    assert [queue.next(), queue.next()] == ["copy", "prepare"]


def test_pages_of_a_file_are_made_and_freed(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(40 << 20)
        memory = mmap.mmap(file.fileno(), 0)
    touch(memory)
    content = np.frombuffer(memory, np.uint8)
    assert not content.any()
    content[:] = 7
    free_shared(memory)
    assert not content.any() or content.all()  # a file system that cannot free them leaves them


def test_pages_of_an_array_are_freed() -> None:
    array = np.ones((2, 1 << 20), np.float32)
    free_private(array)
    assert array.sum() < 3000  # what is left shares a page with other memory


def test_a_job_that_pauses_after_its_first_step_moves(deployment: Deployment) -> None:
    """Its window is open; a tensor leaves without an update, and the next push goes to the new master."""
    old, new = deployment.aggregator(), deployment.aggregator()
    identity = deployment.job("job", 1, old)
    rank = Rank(identity(0), old)
    for name in ("a", "b"):
        rank.init(name)
        rank.push([1, 2, 3, 4], 0, name)
        assert rank.pull(1, name) == Parameters(name, 1)
    for name in ("a", "b"):
        assert deployment.request(old, MigrateTensor("job", name, new.address, within_s=0.2)) == Accepted()
    until(lambda: len(deployment.tensors(new, "job")) == 2, "both tensors move")
    assert deployment.statistics(old)["jobs"]["job"]["memory_bytes"] == 0
    there = Rank(identity(0), new)
    assert there.pull(1, "a", epoch=2) == Parameters("a", 1)
    there.push([1, 1, 1, 1], 1, "b", epoch=2)
    assert there.pull(2, "b", epoch=2) == Parameters("b", 2)
    assert there.parameters.tolist() == [-2, -3, -4, -5]


def test_a_lost_connection_in_a_step_holds_no_migration_up(deployment: Deployment) -> None:
    """Rank 1 never pushes again: the tensor that was updated leaves although its step is not complete."""
    old, new = deployment.aggregator(), deployment.aggregator()
    identity = deployment.job("job", 2, old)
    ranks = [Rank(identity(at), old, at) for at in (0, 1)]
    for name in ("a", "b"):
        ranks[0].init(name)
        for rank in ranks:
            rank.push([1, 2, 3, 4], 0, name)
    for name in ("a", "b"):
        deployment.request(old, MigrateTensor("job", name, new.address, within_s=0.5))
    for rank in ranks:
        rank.push([1, 2, 3, 4], 1, "a")
    ranks[1].channel.close()
    until(lambda: len(deployment.tensors(new, "job")) == 2, "both tensors move")
    assert {each["version"] for each in deployment.tensors(new, "job").values()} == {1, 2}
