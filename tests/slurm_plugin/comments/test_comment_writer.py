"""Comments are set from spare calls, at most so many a minute, and never in place of another's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.slurm_plugin.backends.interface import Comments, JobRefused, SlurmJob, SlurmUnavailable
from tiresias.slurm_plugin.comments.waiting_text import WaitingComment, is_own_comment
from tiresias.slurm_plugin.comments.writer import PASS_INTERVAL_S, CommentWriter
from tiresias.slurm_plugin.config import Comment


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Slurm:
    """The comments of records, and what was asked."""

    def __init__(self, clock: Clock, **shown: str) -> None:
        self.shown = {int(record[1:]): text for record, text in shown.items()}
        self.clock, self.calls = clock, list[tuple[float, str, int]]()
        self.error: Exception | None = None

    def comments(self, records: Sequence[int]) -> dict[int, Comments]:
        self.calls.append((self.clock.now, "read", 1))
        return {record: Comments(self.shown[record], "of the owner") for record in records if record in self.shown}

    def set_comment(self, names: Sequence[str], field: str, text: str) -> None:
        self.calls.append((self.clock.now, "set", len(names)))
        if self.error:
            raise self.error
        assert field == "AdminComment"
        for name in names:
            record = int(name.partition("_")[0])
            assert not self.shown[record] or is_own_comment(self.shown[record]), "another's comment was overwritten"
            self.shown[record] = text

    def sets(self) -> int:
        return sum(count for _, verb, count in self.calls if verb == "set")


def writer(slurm: Slurm, spare: float = math.inf, **config: Any) -> CommentWriter:
    return CommentWriter(Comment(**config), slurm, True, lambda: spare, slurm.clock)  # type: ignore[arg-type]


def go(one: CommentWriter, jobs: Sequence[SlurmJob], starting: Sequence[str] = (), **texts: str) -> None:
    """A pass a while after the last one; texts by record, such as r7="..."."""
    one._clock.now += PASS_INTERVAL_S  # type: ignore[attr-defined]
    texts_now = [WaitingComment(record[1:], int(record[1:]), f"Tiresias: {text}") for record, text in texts.items()]
    one.write(lambda: texts_now, jobs, starting, starting)


Make = Callable[..., SlurmJob]


def records(pending: Make, *numbers: int, **more: Any) -> list[SlurmJob]:
    return [pending(id=str(number), raw_id=number, **more) for number in numbers]


def test_a_text_is_set_once_and_changed_after_the_interval(pending: Make) -> None:
    slurm = Slurm(Clock(), r1="", r2="")
    one, jobs = writer(slurm, interval=60.0), records(pending, 1, 2)
    go(one, jobs, r1="1st", r2="2nd")
    assert slurm.shown == {1: "Tiresias: 1st", 2: "Tiresias: 2nd"}
    made = len(slurm.calls)
    go(one, jobs, r1="1st", r2="2nd")
    go(one, jobs, r1="other", r2="2nd")
    assert len(slurm.calls) == made, "a steady queue costs nothing, and no text is changed before its interval"
    slurm.clock.now += 60.0
    go(one, jobs, r1="other", r2="2nd")
    assert slurm.shown[1] == "Tiresias: other"


def test_a_job_that_runs_again_between_two_passes_gets_its_text_at_once(running: Make) -> None:
    """As an elastic job with another size: its start has removed the text of the run before."""
    slurm = Slurm(Clock(), r1="")
    one, first = writer(slurm, interval=300.0), running(5, id="1", raw_id=1)
    go(one, [first], r1="8 GPUs")
    slurm.shown[1] = ""
    go(one, [replace(first, restarts=1)], r1="4 GPUs")
    assert slurm.shown == {1: "Tiresias: 4 GPUs"}
    go(one, [replace(first, restarts=1)], r1="4 GPUs, later")
    assert slurm.shown == {1: "Tiresias: 4 GPUs"}, "once in an interval"


def test_equal_texts_are_one_command(pending: Make) -> None:
    slurm = Slurm(Clock(), r1="", r2="", r3="")
    go(writer(slurm), records(pending, 1, 2, 3), r1="same", r2="same", r3="same")
    assert [call[1:] for call in slurm.calls] == [("read", 1), ("set", 3)]


def test_a_comment_of_others_stays(pending: Make) -> None:
    slurm = Slurm(Clock(), r1="JS1:H4sIA", r2="")
    one, jobs = writer(slurm, interval=60.0), records(pending, 1, 2)
    go(one, jobs, r1="1st", r2="2nd")
    slurm.shown[2] = "see ticket 5"  # an administrator's, after the controller's
    slurm.clock.now += 60.0
    go(one, jobs, r1="2nd", r2="1st")
    go(one, jobs)
    assert one.remove_all(jobs)
    assert slurm.shown == {1: "JS1:H4sIA", 2: "see ticket 5"}


def test_it_is_removed_when_the_job_waits_no_more(pending: Make, running: Make) -> None:
    slurm = Slurm(Clock(), r1="", r2="")
    one = writer(slurm)
    go(one, records(pending, 1, 2), r1="1st", r2="2nd")
    go(one, [running(5, id="1", raw_id=1), *records(pending, 2)], r2="2nd")
    assert slurm.shown == {1: "", 2: "Tiresias: 2nd"}
    assert one.remove_all(records(pending, 2))
    assert slurm.shown == {1: "", 2: ""}


def test_a_start_removes_it_and_a_job_that_waits_again_gets_a_new_one(pending: Make) -> None:
    slurm = Slurm(Clock(), r1="")
    one, jobs = writer(slurm), records(pending, 1)
    go(one, jobs, r1="1st")
    slurm.shown[1] = ""  # by the pin
    before = len(slurm.calls)
    go(one, jobs, starting=["1"])
    assert len(slurm.calls) == before
    go(one, jobs, r1="1st")
    assert slurm.shown[1] == "Tiresias: 1st"


def test_a_start_that_did_not_remove_it(pending: Make, running: Make) -> None:
    slurm = Slurm(Clock(), r1="Tiresias: 1st")
    one, shown = writer(slurm), Comments("Tiresias: 1st", "")
    go(one, records(pending, 1, comments=shown), starting=["1"])
    for _ in range(3):
        go(one, [running(5, id="1", raw_id=1, comments=shown)])
    assert slurm.shown[1] == ""
    assert [call[1:] for call in slurm.calls] == [("read", 1), ("set", 1)]


def test_what_a_controller_before_it_left_is_removed(running: Make) -> None:
    slurm = Slurm(Clock(), r1="Tiresias: 4th of 9", r2="of an admin")
    shown = {1: "Tiresias: 4th of 9", 2: "of an admin"}
    jobs = [running(5, id=str(one), raw_id=one, comments=Comments(text, "")) for one, text in shown.items()]
    go(writer(slurm), jobs)
    assert slurm.shown == {1: "", 2: "of an admin"}


def test_refused_and_out_of_reach_is_retried_later(pending: Make) -> None:
    slurm = Slurm(Clock(), r1="")
    one, jobs = writer(slurm, interval=60.0), records(pending, 1)
    for error in (JobRefused("Invalid job id specified"), SlurmUnavailable("no answer"), None):
        assert slurm.shown[1] == ""
        slurm.error = error
        slurm.clock.now += 60.0
        go(one, jobs, r1="1st")
    assert slurm.shown[1] == "Tiresias: 1st"


def test_without_the_right_it_gives_up(pending: Make) -> None:
    slurm = Slurm(Clock(), r1="")
    one, jobs = writer(slurm, interval=60.0), records(pending, 1)
    slurm.error = JobRefused("job 1: Access/permission denied")
    for _ in range(3):
        slurm.clock.now += 60.0
        go(one, jobs, r1="1st")
    assert slurm.sets() == 1
    assert one.remove_all(jobs)


def test_none_and_no_spare_calls(pending: Make) -> None:
    disabled: list[dict[str, Any]] = [{"field": "none"}, {"spare": 1.0}]
    for options in disabled:
        slurm = Slurm(Clock(), r1="")
        go(writer(slurm, **options), records(pending, 1), r1="1st")
        assert not slurm.calls


def test_which_field() -> None:
    cases = {
        ("auto", True): "AdminComment",
        ("auto", False): "Comment",
        ("none", True): None,
        ("Comment", True): "Comment",
    }
    for (configured, administers), field in cases.items():
        one = CommentWriter(Comment(field=configured), Slurm(Clock()), administers, lambda: math.inf)  # type: ignore[arg-type]
        assert one.field == field


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 60),
    st.sampled_from([0.5, 3.0, 30.0]),
    st.lists(st.lists(st.integers(0, 4), min_size=30, max_size=30), min_size=1, max_size=40),
)
def test_never_more_calls_than_configured(pending: Make, per_minute: int, step: float, passes: list[list[int]]) -> None:
    """Whatever the texts do: `per_minute` calls a minute, and those of a full bucket at the start."""
    clock = Clock()
    slurm = Slurm(clock, **{f"r{record}": "" for record in range(1, 31)})
    one, jobs = writer(slurm, per_minute=per_minute, interval=1.0), records(pending, *range(1, 31))
    for texts in passes:
        clock.now += step
        texts_now = [WaitingComment(str(at), at, f"Tiresias: {text}") for at, text in enumerate(texts, 1)]
        one.write(lambda texts_now=texts_now: texts_now, jobs, (), ())  # type: ignore[misc]
    assert sum(count for _, _, count in slurm.calls) <= per_minute + per_minute / 60 * clock.now
