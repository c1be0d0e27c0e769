"""The share of each rank in a batch of a fixed size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.checkpoint.global_batch import local_batch
from tiresias.errors import UsageError


@given(st.integers(1, 200), st.integers(1, 64), st.integers(0, 300))
def test_all_ranks_together_have_the_batch_in_equal_passes_that_fit(samples: int, ranks: int, most: int) -> None:
    share = local_batch(samples * ranks, ranks, most)
    assert share.samples * ranks == samples * ranks
    assert share.of_pass * share.passes == share.samples
    assert most == 0 or share.of_pass <= most


@pytest.mark.parametrize(("batch", "ranks"), [(48, 5), (1, 2), (0, 1), (-4, 2)])
def test_what_cannot_be_divided_is_refused(batch: int, ranks: int) -> None:
    with pytest.raises(UsageError, match=rf"a batch of {batch} samples cannot be divided equally among {ranks} ranks"):
        local_batch(batch, ranks)
