"""Matrices of pairs: completion of planted ones and of others' measurements; hostile input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.estimates.published_pairs import halves, held_out_error, published
from tests.shared_data import shared_data
from tiresias.scheduler.estimates.co_run_matrix import complete
from tiresias.scheduler.estimates.job_kinds import JobKind, alike


@pytest.mark.parametrize(("part", "most"), [(0.1, 0.14), (0.3, 0.07), (0.5, 0.06)])
def test_pairs_on_one_gpu(part: float, most: float) -> None:
    """Gavel, P100: 26 kinds; 676 ordered pairs."""
    names, ratio = published(shared_data("interference/gavel_throughputs.csv.gz"))
    error, within = np.mean([held_out_error(names, ratio, part, seed) for seed in range(2)], axis=0)
    assert error < most
    assert within > 0.9


@pytest.mark.parametrize(("part", "most"), [(0.1, 0.2), (0.3, 0.15), (0.5, 0.145)])
def test_pairs_on_one_network(part: float, most: float) -> None:
    """DeepShare: 36 kinds; half of the pairs."""
    names, ratio = published(shared_data("interference/deepshare_pair_ratio.csv.gz"))
    error, within = np.mean([held_out_error(names, ratio, part, seed) for seed in range(2)], axis=0)
    assert error < most
    assert within > 0.7


def test_planted_sensitivities_and_loads_are_found() -> None:
    chance = np.random.default_rng(1)
    sensitive, heavy = chance.normal(size=20), chance.normal(size=20)
    ratio = 1.0 / (1.0 + np.exp(sensitive[:, None] + heavy[None, :] - 1.0))
    known = halves(ratio, 0.4, 2)
    found = complete(np.where(known, ratio, np.nan), np.eye(20))
    assert np.abs(found.ratio[~known] / ratio[~known] - 1.0).mean() < 0.05
    assert found.error < 0.1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8), st.floats(0.0, 1.0))
def test_every_ratio_is_within_its_range(seed: int, kinds: int, part: float) -> None:
    """Also where nothing, one pair, or something absurd was measured."""
    chance = np.random.default_rng(seed)
    ratio = np.exp(3.0 * chance.normal(size=(kinds, kinds)))
    ratio[chance.random(ratio.shape) > part] = chance.choice([np.nan, np.inf, -1.0, 0.0])
    found = complete(ratio, np.eye(kinds))
    assert ((found.low > 0.0) & (found.low <= found.ratio) & (found.ratio <= found.high) & (found.high <= 1.0)).all()


def test_kinds_with_other_numbers_are_one_family() -> None:
    assert JobKind.of("ResNet-18 (batch size 16)") == ("ResNet-18 (batch size #)", (16,))
    assert JobKind.of("DLRM,8,2") == ("DLRM,#,#", (8, 2))
    likeness = alike(["ResNet-18 (batch size 16)", "ResNet-18 (batch size 64)", "ResNet-50 (batch size 16)"])
    assert likeness[0, 0] == 1.0
    assert 0.0 < likeness[0, 1] < 1.0
    assert likeness[0, 2] == 0.0


@given(st.lists(st.text(max_size=20), min_size=1, max_size=12))
def test_likeness_is_a_covariance(names: list[str]) -> None:
    likeness = alike(names)
    assert np.linalg.eigvalsh(likeness).min() > -1e-9
    assert np.diag(likeness) == pytest.approx(1.0)
