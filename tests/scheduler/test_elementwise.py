"""`elementwise`: a function returns the same for one number as for an array of it."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tiresias.scheduler.elementwise import to_millisecond


@given(st.floats(-1e9, 4e9))
@example(1.0005)
@example(0.0015)
@example(-0.0005)
def test_moments_are_rounded_as_arrays_of_them(moment: float) -> None:
    one = to_millisecond(moment)
    assert one == to_millisecond(np.array([moment]))[0]
    assert abs(one - moment) < 0.000501
    assert to_millisecond(one) == one
