"""Jobs whose programs have ended without a message are found; no job that trains or asks is."""

from __future__ import annotations

from tiresias.services.parameter_service.manager.job_activity import JobActivity


def test_a_job_is_silent_after_the_limit_and_not_while_it_updates_or_asks() -> None:
    activity = JobActivity(10.0)
    found = []
    for at in range(10):
        activity.active("asks", at)
        found += activity.silent({"trains": at, "asks": 0, "ended": 7}, at)
    assert not found
    activity.active("asks", 10.0)
    assert activity.silent({"trains": 10, "asks": 0, "ended": 7}, 10.5) == ["ended"]
    assert activity.silent({"trains": 10, "asks": 0}, 19.0) == []
    assert activity.silent({"trains": 10, "asks": 0}, 20.6) == ["trains", "asks"]


def test_a_removed_job_that_registers_anew_is_new() -> None:
    activity = JobActivity(10.0)
    assert activity.silent({"job": 3}, 0.0) == []
    assert activity.silent({"job": 3}, 11.0) == ["job"]
    assert activity.silent({}, 12.0) == []
    assert activity.silent({"job": 3}, 30.0) == []
