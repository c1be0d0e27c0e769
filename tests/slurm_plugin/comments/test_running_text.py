"""The comments of running elastic jobs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder
from tests.scheduler.size.test_minimum_first import elastic, job
from tiresias.scheduler.model import JobState
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.comments import rounding
from tiresias.slurm_plugin.comments.running_text import running_comments
from tiresias.slurm_plugin.comments.waiting_text import LONGEST

Make = Callable[..., SlurmJob]
NOON = time.mktime((2026, 11, 26, 12, 0, 0, 0, 0, -1))
HOUR = 3600.0


def texts(running: Make, at: float, low: float, high: float, state: JobState = JobState.RUNNING) -> list[str]:
    """The comments of one elastic job of eight GPUs; ends in hours after noon."""
    found = elastic(Builder()([job("1", 8, 1, state=state)], [Builder.Node(8)]), (2, 16, 2))
    ends = {"1": (NOON + at * HOUR, NOON + low * HOUR, NOON + high * HOUR)}
    shown = running_comments(replace(found, time=NOON), [running(5, id="1", raw_id=7)], ends)
    return [one.text for one in shown if one.record == 7]


@pytest.mark.parametrize(
    ("at", "low", "high", "words"),
    [
        (2.49, 2.05, 3.4, "ends about 14:30 (90%: 14:00 to 15:30)"),
        (0.11, 0.1, 0.12, "ends about 12:05 (90%: 12:05 to 12:10)"),
        (30.0, 22.0, 38.0, "ends about 27 Nov 18:00 (90%: 27 Nov 06:00 to 28 Nov 06:00)"),
        (2.0, 1.9, math.inf, "ends about 14:00 (90%: 13:50 to later)"),
        (math.inf, 2.0, math.inf, "ends after "),
    ],
)
def test_the_predicted_end_is_rounded_to_a_part_of_its_interval(
    running: Make, at: float, low: float, high: float, words: str
) -> None:
    [text] = texts(running, at, low, high)
    assert text.startswith(f"Tiresias: 8 GPUs (elastic: 2 to 16); {words}")


def test_no_text_without_a_prediction_of_a_waiting_job_or_of_one_of_fixed_size(running: Make) -> None:
    assert texts(running, math.inf, math.inf, math.inf) == []
    assert texts(running, 2.0, 1.0, 3.0, JobState.WAITING) == []
    fixed = Builder()([job("1", 8, 1, state=JobState.RUNNING)], [Builder.Node(8)])
    assert not [*running_comments(fixed, [running(5, id="1", raw_id=7)], {"1": (NOON, NOON, NOON)})]
    assert not [*running_comments(elastic(fixed, (2, 16, 2)), [running(5, id="1", raw_id=7)], {})]


@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1e5) | st.just(math.inf))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_texts_are_short_and_the_interval_holds_the_end(running: Make, first: float, more: float, wide: float) -> None:
    [text] = texts(running, first + more, first, first + more + wide)
    assert len(text) <= LONGEST
    assert text.isascii()


def test_a_small_change_of_the_prediction_is_no_new_text(running: Make) -> None:
    shown = {texts(running, at, 2.0, 4.0)[0] for at in (2.8, 2.9, 3.0, 3.1, 3.2)}
    assert len(shown) == 1
    assert rounding.part_of_interval(1e9) == 86400
