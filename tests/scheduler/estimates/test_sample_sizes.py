"""Samples of sizes: possible, different, within the limit, and better for the speed model than others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.sample_sizes import SampledSize, SampleSpan, next_sample, possible_sizes
from tiresias.scheduler.estimates.speed_forms import ALL_REDUCE, SYNCHRONOUS
from tiresias.scheduler.estimates.speed_model import fit
from tiresias.scheduler.model import Floats


def samples(span: SampleSpan, count: int, most: int = 2**62) -> list[SampledSize]:
    found: list[SampledSize] = []
    while len(found) < count and (size := next_sample(span, found, most)):
        found.append(size)
    return found


@st.composite
def spans(draw: st.DrawFn) -> SampleSpan:
    servers = draw(st.booleans())
    least = draw(st.integers(1, 40)) + servers
    return SampleSpan(
        least, least + draw(st.integers(0, 300)), draw(st.integers(1, 9)), draw(st.integers(1, 8)), servers
    )


@given(spans(), st.integers(1, 400), st.integers(1, 7))
def test_samples_are_different_sizes_of_the_job_within_the_limit(span: SampleSpan, most: int, count: int) -> None:
    found = samples(span, count, most)
    assert len(set(found)) == len(found)
    for size in found:
        assert span.least <= size.gpus <= min(most, span.most)
        assert (size.gpus - span.least) % span.step == 0
        assert (0 < size.servers < size.gpus) if span.has_servers else size.servers == 0
    if len(found) < count:
        assert {one for one in possible_sizes(span, most) if one.gpus <= most} == set(found), "until none is left"
    elif most >= span.least:
        assert found, "a job whose fewest GPUs are there gets a sample"


@given(spans(), st.integers(1, 400))
def test_a_running_job_gets_another_number_of_gpus(span: SampleSpan, most: int) -> None:
    first = next_sample(span, (), most)
    if first and (then := next_sample(span, [first], most, first.gpus)):
        assert then.gpus != first.gpus


def test_samples_reach_both_ends_and_a_second_node() -> None:
    gpus = [size.gpus for size in samples(SampleSpan(1, 16, 1, 4), 5)]
    assert min(gpus) == 1
    assert max(gpus) == 16
    assert sum(one <= 4 for one in gpus) >= 2
    assert sum(one > 4 for one in gpus) >= 2
    split = samples(SampleSpan(2, 20, 1, 3, has_servers=True), 5)
    ratios = [size.servers / (size.gpus - size.servers) for size in split]
    assert min(ratios) < 0.5
    assert max(ratios) > 2.0


def test_sizes_of_a_kind_count_as_measured() -> None:
    span = SampleSpan(1, 4, 1, 4)
    first, *_, last = samples(span, 4)
    assert next_sample(span, [first], 4) == samples(span, 2)[1]
    assert next_sample(span, [one for one in samples(span, 4) if one != last], 4) == last
    assert next_sample(span, samples(span, 4), 4) is None


@pytest.mark.parametrize("has_servers", [False, True])
def test_a_model_of_samples_has_smaller_errors_than_one_of_random_sizes(has_servers: bool) -> None:
    span = SampleSpan(1 + has_servers, 16, 1, 4, has_servers)
    chosen, ratios = samples(span, 5), list[float]()
    for seed in range(40):
        chance = np.random.default_rng(seed)
        form = SYNCHRONOUS if has_servers else ALL_REDUCE
        theta = np.array(form.expected) * chance.gamma(1.5, 1.0, len(form.expected))
        sizes = possible_sizes(span, 16)
        rows = _rows(sizes, span)
        speeds = 1.0 / (form.matrix(rows) / form.scales(rows) @ theta)
        points = np.column_stack([rows, speeds * np.exp(chance.normal(0.0, 0.02, len(speeds)))])
        taken = [sizes.index(one) for one in chosen]
        errors = [
            np.abs(np.log(fit(points[at], form).speed(*rows.T) / speeds)).mean()
            for at in (taken, chance.choice(len(sizes), 5, replace=False))
        ]
        ratios.append(errors[0] / errors[1])
    assert np.median(ratios) < 0.95


def _rows(sizes: tuple[SampledSize, ...], span: SampleSpan) -> Floats:
    servers, gpus = np.array(sizes, np.float64).T
    if span.has_servers:
        return np.column_stack([servers, gpus - servers, np.ones(len(gpus))])
    return np.column_stack([np.ceil(gpus / 4), gpus, 1.0 / gpus])
