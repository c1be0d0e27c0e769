"""What stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.checkpoint import KeepEvery, KeepLast, KeepUntilVerified, Store
from tiresias.checkpoint.retention import KEEP, kept, policies_from_env
from tiresias.errors import UsageError

STEPS = st.lists(st.integers(0, 10_000), unique=True).map(lambda steps: sorted(steps, reverse=True))
POLICIES = st.lists(
    st.builds(KeepLast, st.integers(0, 9)) | st.builds(KeepEvery, st.integers(1, 5000)) | st.just(KeepUntilVerified())
)


@given(POLICIES, STEPS, st.integers(0, 10_000))
def test_the_newest_always_stay_and_more_policies_keep_more(policies, steps: list[int], good: int) -> None:  # type: ignore[no-untyped-def]
    stay = kept(policies, steps, lambda step: step == good)
    assert set(steps[:KEEP]) <= stay <= set(steps)
    for policy in policies:
        assert kept([policy], steps, lambda step: step == good) <= stay
    if KeepUntilVerified() in policies:
        assert good not in steps or {step for step in steps if step >= good} <= stay


@given(st.integers(1, 500), st.lists(st.integers(1, 200), min_size=1))
def test_every_kth_does_not_depend_on_how_often_it_is_asked(period: int, gaps: list[int]) -> None:
    """As a training saves: what goes at one save may not be missed at a later one."""
    left: list[int] = []
    steps = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    for step in steps:
        left = sorted(kept([KeepEvery(period)], [step, *left], lambda _: False), reverse=True)
    firsts = {
        min(step for step in steps if step // period == span) for span in {step // period for step in steps} - {0}
    }
    assert set(left) == firsts | set(sorted(steps, reverse=True)[:KEEP])


def test_in_a_store(tmp_path: Path) -> None:
    store = Store(tmp_path, [KeepLast(3), KeepEvery(100)])
    for step in range(30, 400, 40):
        store.save(step, {})
    assert store.steps() == [390, 350, 310, 230, 110]


def test_none_goes_for_one_that_is_damaged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path, [KeepUntilVerified()])
    for step in (1, 2, 3, 4):
        store.save(step, {"x": b"abc"})
    assert store.steps() == [4, 3]
    for step in (3, 4):
        (store.path(step) / "rank-0.bin").write_bytes(b"abd")
    fresh = Store(tmp_path, [KeepUntilVerified()])
    assert fresh.prunable() == []
    assert (
        "step-4: rank-0.bin: its hash is not the one that was written; older ones stay for now"
        in capfd.readouterr().err
    )
    fresh.save(5, {})
    assert fresh.steps() == [5, 4]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, [KeepLast(2)]),
        ({"TIRESIAS_KEEP": "7"}, [KeepLast(7)]),
        (
            {"TIRESIAS_KEEP_EVERY": "1000", "TIRESIAS_KEEP_VERIFIED": "1"},
            [KeepLast(2), KeepEvery(1000), KeepUntilVerified()],
        ),
        ({"TIRESIAS_KEEP_VERIFIED": "0"}, [KeepLast(2)]),
    ],
)
def test_from_the_environment(env: dict[str, str], expected: list[object]) -> None:
    assert policies_from_env(env) == expected


@pytest.mark.parametrize(
    ("name", "text"), [("TIRESIAS_KEEP", "1"), ("TIRESIAS_KEEP", "x"), ("TIRESIAS_KEEP_EVERY", "0")]
)
def test_a_wrong_environment(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{name}='{text}': not a whole number from"):
        policies_from_env({name: text})
