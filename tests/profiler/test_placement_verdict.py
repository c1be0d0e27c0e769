"""Consolidate, spread or unknown, and always why."""

from __future__ import annotations

import pytest

from tiresias.profiler.iteration.shape import RING, SERVERS, UNKNOWN, ParameterServer, TrafficShape
from tiresias.profiler.placement_verdict import PACKLIMIT, decide
from tiresias.profiler.rhythm.period import Period
from tiresias.simulator.models import MODELS

SURE, UNSURE = Period(1.0, 0.9, {}), Period(1.0, 0.3, {})
RING_OF_4 = TrafficShape(RING, 4, 100e6)


def servers(skew: float) -> TrafficShape:
    return TrafficShape(
        SERVERS, 4, 100e6, (ParameterServer(4, 60e6, skew * 100e6, 10), ParameterServer(5, 40e6, 1e6, 10))
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_paper_s_ten_models(name: str) -> None:
    verdict = decide(SURE, 20, servers(MODELS[name].skew), MODELS[name].skew, None)
    assert verdict.decision == ("consolidate" if MODELS[name].spread > 1 else "spread")


def test_packlimit_is_the_callers() -> None:
    assert decide(SURE, 20, servers(0.3), 0.3, None, packlimit=0.2).decision == "consolidate"
    assert decide(SURE, 20, servers(PACKLIMIT), PACKLIMIT, None).decision == "spread"  # "larger than" in the paper


@pytest.mark.parametrize(
    ("period", "iterations", "shape", "skew", "intensity", "decision", "reason"),
    [
        (None, 0, TrafficShape(UNKNOWN, 0, 0.0), None, None, "unknown", "no periodic traffic"),
        (UNSURE, 20, servers(0.7), 0.7, None, "unknown", "confidence 0.30"),
        (SURE, 3, servers(0.7), 0.7, None, "unknown", "only 3 iterations"),
        (SURE, 20, servers(0.7), 0.7, None, "consolidate", "70.0% of the model, above PACKLIMIT 40%"),
        (SURE, 20, servers(0.7), 0.7, None, "consolidate", "the fullest of 2 parameter servers has 60%"),
        (SURE, 20, RING_OF_4, None, None, "unknown", "needs the bandwidth"),
        (SURE, 20, RING_OF_4, None, 0.8, "consolidate", "0.80 s on the wire"),
        (SURE, 20, RING_OF_4, None, 0.1, "spread", "tensors are cut"),
        (SURE, 20, TrafficShape(UNKNOWN, 0, 0.0), None, 0.1, "unknown", "neither that of parameter servers nor"),
    ],
)
def test_decision_and_reason(
    period: Period | None,
    iterations: int,
    shape: TrafficShape,
    skew: float | None,
    intensity: float | None,
    decision: str,
    reason: str,
) -> None:
    verdict = decide(period, iterations, shape, skew, intensity)
    assert verdict.decision == decision
    assert any(reason in each for each in verdict.reasons), verdict.reasons
