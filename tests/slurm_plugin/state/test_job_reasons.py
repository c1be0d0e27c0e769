"""Codes of the journal, and the words for them."""

from __future__ import annotations

import pytest

from tiresias.slurm_plugin.state.job_reasons import Unmovable, Unpinnable, stored, text


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (stored(Unmovable.NOT_SAVED, "20"), "did not save within 20 s of the signal"),
        (stored(Unmovable.PREEMPTION_REFUSED, "job 1: a {} b"), "Slurm refused its preemption: job 1: a {} b"),
        (stored(Unmovable.NOT_REQUEUEABLE, "job 1: only batch jobs"), "job 1: only batch jobs"),
        (
            stored(Unpinnable.IMPOSSIBLE_STARTS, 3, "BadConstraints (x y)"),
            "Slurm refused 3 starts: BadConstraints (x y)",
        ),
        (stored(Unpinnable.FEWER_GPUS_THAN_NODES, 1, 2), "it requests fewer GPUs (1) than nodes (2)"),
    ],
)
def test_words_of_a_stored_reason(reason: str, words: str) -> None:
    assert text(reason) == words


@pytest.mark.parametrize(
    "reason", ["", "no code", "unknown: 1", "fewer_gpus_than_nodes: 1", "not_saved", "not_saved: "]
)
def test_what_is_no_stored_reason_is_returned_as_it_is(reason: str) -> None:
    assert text(reason) == reason


@pytest.mark.parametrize("code", [*Unmovable, *Unpinnable])
def test_every_code_has_words(code: Unmovable | Unpinnable) -> None:
    assert text(stored(code, "first", "second")) != stored(code, "first", "second")
