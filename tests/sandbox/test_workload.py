"""The generated workload is the paper's: counts, bins, bounds, and the same on every machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.__main__ import main
from tiresias.sandbox.models import MODELS
from tiresias.sandbox.workload import GPUS, LONGEST, SHORT, SHORTEST, apportion, bounded_pareto, generate
from tiresias.simulator.trace import read_trace


def test_testbed_is_section_5_1() -> None:
    jobs = generate()
    assert len(jobs) == 480
    assert Counter(job.num_gpus for job in jobs) == GPUS
    assert set(Counter(job.model for job in jobs).values()) == {48}
    assert Counter(job.model for job in jobs).keys() == MODELS.keys()


def test_bins_are_those_of_table_3() -> None:
    bins = Counter(("S" if job.num_gpus <= 4 else "L") + ("S" if job.duration < SHORT else "L") for job in generate())
    assert bins == {"SS": 301, "SL": 59, "LS": 83, "LL": 37}


@given(jobs=st.integers(1, 1000), seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_any_number_of_jobs(jobs: int, seed: int) -> None:
    made = generate(jobs, seed)
    assert len(made) == jobs
    assert len({job.job_id for job in made}) == jobs
    assert all(SHORTEST <= job.duration <= LONGEST for job in made)
    arrivals = [job.submit_time for job in made]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0
    models = Counter(job.model for job in made)
    assert max(models.values()) - min(models[name] for name in MODELS) <= 1


@given(seed=st.integers(0, 2**32))
@settings(max_examples=10)
def test_a_seed_is_a_workload(seed: int) -> None:
    assert generate(50, seed) == generate(50, seed)
    assert generate(50, seed) != generate(50, seed + 1)


def test_arrivals_are_30_seconds_apart_in_the_mean() -> None:
    assert generate(20_000, 3)[-1].submit_time / 19_999 == pytest.approx(30, rel=0.03)


@given(
    total=st.integers(0, 5000),
    shares=st.dictionaries(st.integers(), st.integers(0, 100), min_size=1).filter(lambda shares: any(shares.values())),
)
def test_apportion_is_within_one_of_the_exact_share(total: int, shares: dict[int, int]) -> None:
    counts = Counter(apportion(total, shares))
    assert sum(counts.values()) == total
    whole = sum(shares.values())
    assert all(abs(counts[item] - total * share / whole) < 1 for item, share in shares.items())


@given(u=st.floats(0, 1, exclude_max=True), shape=st.floats(0.1, 10))
def test_bounded_pareto_stays_in_its_bounds(u: float, shape: float) -> None:
    assert 120 <= bounded_pareto(120, 800, shape, u) <= 800 * (1 + 1e-9)


def test_bounded_pareto_has_its_median() -> None:
    """Half of a bounded Pareto of shape 1 on [L, H] lies below 2LH / (L + H)."""
    assert bounded_pareto(120, 800, 1.0, 0.5) == pytest.approx(2 * 120 * 800 / 920)


def test_the_command_prints_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "workload", "--jobs", "20", "--seed", "9"]) == 0
    file = tmp_path / "trace.csv"
    file.write_text(capsys.readouterr().out)
    assert read_trace(file).jobs() == generate(20, 9)


@pytest.mark.parametrize("words", [["--jobs", "0"], ["--interarrival", "-1"], ["--long-shape", "nan"]])
def test_impossible_workloads_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "workload", *words]) == 2
    assert "must be above 0" in capsys.readouterr().err
