"""Table 6 as data, and what a placement costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.simulator.models import DEFAULT, MODELS, model, slowdown

SKEWED = {"vgg19", "vgg16", "vgg11", "alexnet"}
TABLE_6_RATIOS = {
    "vgg19": 71.5, "vgg16": 74.3, "vgg11": 77.3, "alexnet": 61.0, "resnet152": 3.9, "resnet101": 5.3, "resnet50": 9.2,
    "inception4": 3.6, "inception3": 8.6, "googlenet": 14.6,
}  # fmt: skip


@pytest.mark.parametrize(("name", "percent"), TABLE_6_RATIOS.items())
def test_largest_tensor_ratio_is_that_of_table_6(name: str, percent: float) -> None:
    assert 100 * MODELS[name].skew == pytest.approx(percent, abs=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_only_skewed_models_mind_their_placement(name: str) -> None:
    worst = slowdown(MODELS[name], 8, 8, 4)
    assert (worst > 1) == (name in SKEWED)
    assert worst <= 1.67  # Figure 12


@given(st.sampled_from(sorted(MODELS)), st.integers(1, 64), st.integers(1, 64), st.integers(1, 8))
def test_slowdown_grows_with_the_nodes_from_one(name: str, gpus: int, nodes: int, gpus_per_node: int) -> None:
    here = slowdown(MODELS[name], gpus, nodes, gpus_per_node)
    assert 1 <= here <= slowdown(MODELS[name], gpus, nodes + 1, gpus_per_node) <= MODELS[name].spread
    assert slowdown(MODELS[name], gpus, -(-gpus // gpus_per_node), gpus_per_node) == 1


def test_an_unknown_model_is_the_default_one() -> None:
    assert model("share750") == MODELS[DEFAULT]
    assert model("VGG19") == MODELS["vgg19"]
