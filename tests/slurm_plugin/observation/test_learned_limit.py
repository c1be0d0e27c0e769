"""What the controller learns from its journal and the users' profiles."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.protocol import control
from tiresias.protocol.job_kind import Key
from tiresias.protocol.profile_summary import Summary, as_object
from tiresias.scheduler.place.packlimit_classifier import PackLimit, learn
from tiresias.slurm_plugin.observation.learned_limit import ENOUGH, REFIT, KindSlowdown, LearnedLimit, fair, slowdowns

SCRIPT = "0123456789abcdef"
FEW, MANY = "gpu01:4", "gpu01:1,gpu02:1,gpu03:1,gpu04:1"


class Paces:
    """Rows of a ledger, of jobs with the slowdown that `slower` returns for their skew."""

    def __init__(self, root: Path, slower: dict[float, float]) -> None:
        folder = control.profiles_folder(root, os.getuid())
        folder.mkdir(parents=True)
        self.rows: list[tuple[int, str, str, float]] = []
        for number, (skew, factor) in enumerate(slower.items()):
            key = Key(f"job{number}", SCRIPT, 4)
            decision = "consolidate" if skew > 0.4 else "spread"
            control.write(folder, key.file, as_object(key, Summary(decision, skew=skew)))
            self.rows += [(os.getuid(), key.file, FEW, 0.1), (os.getuid(), key.file, MANY, 0.1 * factor)]

    def paces(self) -> list[tuple[int, str, str, float]]:
        return self.rows


def test_slowdowns_of_kinds_that_ran_on_few_and_on_more_nodes() -> None:
    rows = [
        (1, "a", FEW, 1.0),
        (1, "a", FEW, 3.0),
        (1, "a", MANY, 4.0),
        (1, "a", "gpu01:2,gpu02:2", 2.0),
        (2, "a", FEW, 1.0),
        (1, "b", MANY, 1.0),
        (1, "c", FEW, 0.0),
        (1, "c", MANY, 1.0),
    ]
    assert slowdowns(rows) == {(1, "a"): 1.5}


def test_a_site_where_smaller_tensors_suffer_learns_it(tmp_path: Path) -> None:
    learned = LearnedLimit(tmp_path, 0.4)
    profile = Summary("spread", skew=0.3)
    assert learned.consolidates(profile) is False
    ledger = Paces(tmp_path, {float(skew): 1.5 if skew > 0.2 else 1.0 for skew in np.linspace(0.01, 0.9, 60)})
    learned.refit(ledger, 0.0)  # type: ignore[arg-type]
    assert learned.consolidates(profile) is True
    assert learned.consolidates(Summary("spread", skew=0.1)) is False
    shown = learned.published()
    assert shown["learned"] is True
    assert shown["limit"] == pytest.approx(0.2, abs=0.06)
    ledger.rows.clear()
    learned.refit(ledger, REFIT - 1)  # type: ignore[arg-type]
    assert learned.published()["learned"] is True, "once an hour is enough"
    learned.refit(ledger, REFIT)  # type: ignore[arg-type]
    assert learned.published()["learned"] is False


def test_what_cannot_be_measured_stays_unknown(tmp_path: Path) -> None:
    learned = LearnedLimit(tmp_path, 0.4)
    assert learned.consolidates(Summary("unknown", skew=0.9)) is None
    assert learned.consolidates(Summary("consolidate", intensity=0.9)) is True


def test_a_profile_under_another_name_is_not_accepted(tmp_path: Path) -> None:
    ledger = Paces(tmp_path, {0.9: 2.0})
    folder = control.profiles_folder(tmp_path, os.getuid())
    [file] = folder.iterdir()
    file.rename(folder / "0123456789abcdef-4-0000000000000000.json")
    ledger.rows = [
        (uid, "0123456789abcdef-4-0000000000000000.json", nodes, pace) for uid, _, nodes, pace in ledger.rows
    ]
    learned = LearnedLimit(tmp_path, 0.4)
    learned.refit(ledger, 0.0)  # type: ignore[arg-type]
    assert learned.published()["jobs"] == 0


def observations_of(uid: int, count: int, slowdown: float = 1.0) -> list[tuple[int, KindSlowdown]]:
    return [(uid, KindSlowdown(number / count, 0.1, slowdown)) for number in range(count)]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 40)), max_size=8))
def test_no_user_has_the_majority_where_others_have_enough_observations(sizes: list[tuple[int, int]]) -> None:
    rows = [row for uid, count in sizes for row in observations_of(uid, count)]
    kept = fair([(uid, one._replace(slowdown=float(uid))) for uid, one in rows])
    for uid in {uid for uid, _ in rows}:
        mine, others = (sum((other == uid) == same for other, _ in rows) for same in (True, False))
        assert sum(one.slowdown == uid for one in kept) == (mine if others < ENOUGH else min(mine, others))


def test_a_thousand_made_up_kinds_do_not_decide_for_all() -> None:
    """The others' jobs suffer from a skew of 0.5 on; one user reports that all of that user's jobs do, whatever they send."""
    honest = [
        (uid, one._replace(slowdown=1.5 if one.skew > 0.5 else 1.0))
        for uid in (1, 2)
        for _, one in observations_of(uid, 40)
    ]
    lies = observations_of(3, 1000, slowdown=9.0)

    def learned(rows: list[tuple[int, KindSlowdown]]) -> PackLimit:
        skew, rho, slowdown = zip(*fair(rows), strict=True)
        return learn(skew, rho, slowdown, 0.4)

    with_lies, without = learned(honest + lies), learned(honest)
    assert without.consolidates(0.7) is True
    assert without.consolidates(0.3) is False
    assert with_lies.tensors.jobs == 160
    assert with_lies.consolidates(0.7) is True, "those that suffer are still helped"
