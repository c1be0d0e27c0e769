"""How many generated inputs a test takes: all of them in `make test-long`, a part of them in `make test`."""

from __future__ import annotations

from hypothesis import settings

_ALL = 100  # what the profile of `make test-long` has, and a test that states no number


def examples(count: int) -> int:
    """Return `max_examples` of a test that takes `count` inputs in `make test-long`; call it once the profile is loaded."""
    default = settings.default
    assert default is not None
    return max(count * default.max_examples // _ALL, min(count, 5))
