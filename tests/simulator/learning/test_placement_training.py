"""A training goes on after an interruption as if there had been none, and keeps the best validated weights."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.simulator.learning.learners import environment
from tiresias.errors import UsageError
from tiresias.scheduler.place.learned.array_zip import zipped
from tiresias.scheduler.place.learned.weights_file import written
from tiresias.simulator import PlacementEnvironment
from tiresias.simulator.learning.score_terms import STARTS
from tiresias.simulator.learning.training_plan import TrainingPlan
from tiresias.simulator.learning.workload_seeds import (
    MOST_EVALUATION_SEEDS,
    evaluation_seeds,
    training_seed,
    validation_seeds,
)

pytest.importorskip("torch", reason="torch is not installed")

PLAN = TrainingPlan(episodes=6, demonstrations=2)


def training(plan: TrainingPlan = PLAN, cluster: PlacementEnvironment | None = None) -> Any:
    from tiresias.simulator.learning.placement_training import PlacementTraining

    return PlacementTraining(cluster or environment("fat_tree:2", jobs=6), plan)


def advanced(found: Any, episodes: int) -> Any:
    for _ in range(episodes):
        found.advance()
    return found


def test_a_restored_training_goes_on_as_the_first_one(tmp_path: Path) -> None:
    from tiresias.simulator.learning import training_checkpoint

    whole, half = advanced(training(), 6), advanced(training(), 3)
    (file := tmp_path / "checkpoint").write_bytes(training_checkpoint.packed(half))
    again = training()
    training_checkpoint.restore(again, file)
    assert (again.reference, again.start) == (half.reference, half.start)
    advanced(again, 3)
    assert np.array(again.curve) == pytest.approx(np.array(whole.curve), nan_ok=True, rel=0, abs=0)
    assert written(again.best) == written(whole.best)
    assert again.is_done


def test_the_best_validated_weights_are_kept() -> None:
    found = advanced(training(), 6)
    validated = dict(zip(*found.curve_of("validation"), strict=True))
    assert list(validated) == [2, 6]
    best, episode = found.best.training["validation_jct"], found.best.training["trained_episodes"]
    assert best <= min(validated.values())
    assert episode == 0 or validated[episode] == best


@pytest.mark.parametrize(("load", "better"), [(1.0, "estimated costs"), (3.0, "tightest servers")])
def test_weights_that_no_episode_improves_are_those_of_the_better_start(load: float, better: str) -> None:
    found = training(replace(PLAN, demonstrations=0, rate=0.0), environment("bcube:3,1", jobs=12, load=load))
    validated, begun = {}, {}
    for name in STARTS:
        found._learner.begin(name)
        validated[name], begun[name] = found._validated(), found._learner.weights()
    assert min(STARTS, key=lambda name: validated[name]) == better
    advanced(found, 6)
    assert (found.start, found.best.training["start"], found.best.training["trained_episodes"]) == (better, better, 0)
    assert found.best.training["validation_jct"] == validated[better]
    for weights in (found.best.parameters, found._learner.weights()):
        assert all(np.array_equal(begun[better][name], value) for name, value in weights.items())
    assert all(math.isfinite(record.jct) and record.entropy >= 0.0 for record in found.curve)


def test_the_weight_of_the_entropy_decreases_to_0() -> None:
    plan = TrainingPlan(episodes=10, entropy=0.02)
    assert [plan.entropy_weight(episode) for episode in (0, 5, 10, 11)] == pytest.approx([0.02, 0.01, 0.0, 0.0])


def test_no_workload_of_an_evaluation_is_used_in_training() -> None:
    used = {training_seed(seed, episode) for seed in (0, 1, 2) for episode in range(2000)}
    assert len(used) == 6000
    validated, evaluated = set(validation_seeds()), set(evaluation_seeds(MOST_EVALUATION_SEEDS))
    assert not used & (validated | evaluated)
    assert not validated & evaluated


WRONG: list[Any] = [None, 7, {"parameters": {}}, [["x"]], "x", math.inf]


@pytest.mark.parametrize("key", ["plan", "curve", "best", "updates", "reference", "start"])
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_a_checkpoint_with_a_wrong_value_is_one_line(tmp_path: Path, key: str, value: Any) -> None:
    from tiresias.simulator.learning import training_checkpoint

    if (key, value) in (("updates", 7), ("reference", 7), ("reference", math.inf)):
        return
    described, arrays = advanced(training(), 2).state()
    (file := tmp_path / "checkpoint").write_bytes(
        zipped({"schema": training_checkpoint.SCHEMA, **described, key: value}, arrays)
    )
    with pytest.raises(UsageError, match=r"is damaged|is of a training with") as caught:
        training_checkpoint.restore(training(), file)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_checkpoint_are_one_line(tmp_path: Path) -> None:
    from tiresias.simulator.learning import training_checkpoint

    found = advanced(training(), 2)
    whole, (described, arrays) = training_checkpoint.packed(found), found.state()
    fewer = zipped({"schema": training_checkpoint.SCHEMA, **described}, {"a": arrays["best.actor.out"]})
    nan = zipped(
        {"schema": training_checkpoint.SCHEMA, **described},
        {**arrays, "best.actor.out": arrays["best.actor.out"] * np.nan},
    )
    changed = whole.replace(b'"seed": 1', b'"seed": 2')
    assert changed != whole
    for content in (
        b"",
        b"PK\x03\x04",
        whole[: len(whole) // 2],
        b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        written(found.best),
        fewer,
        nan,
        changed,
    ):
        (tmp_path / "checkpoint").write_bytes(content)
        with pytest.raises(UsageError, match="is damaged, or no checkpoint of this version"):
            training_checkpoint.restore(training(), tmp_path / "checkpoint")


@pytest.mark.parametrize(
    "other", [TrainingPlan(seed=2, episodes=6, demonstrations=2), TrainingPlan(load=0.3, episodes=6, demonstrations=2)]
)
def test_a_checkpoint_of_another_plan_is_refused(tmp_path: Path, other: TrainingPlan) -> None:
    from tiresias.simulator.learning import training_checkpoint

    (tmp_path / "checkpoint").write_bytes(training_checkpoint.packed(advanced(training(), 1)))
    with pytest.raises(UsageError, match=r"is of a training with (seed 1, not 2|load 0.7, not 0.3)"):
        training_checkpoint.restore(training(other), tmp_path / "checkpoint")
