"""What is kept of a profile survives being written, and a lie in it is no more than a lie."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.protocol.job_kind import Key
from tiresias.protocol.profile_summary import DECISIONS, LETTERS, REASONS, TRIALS, Summary, as_object, from_object

KEY = Key("train me", "0123456789abcdef", 8)
amounts = st.floats(0, 1e15)
words = st.text(st.characters(categories=("L", "N", "Zs"), max_codepoint=300), max_size=40).map(
    lambda text: text.replace("\xa0", " ")
)
summaries = st.builds(
    Summary, st.sampled_from(DECISIONS), st.lists(words, max_size=REASONS).map(tuple), words,
    st.none() | st.floats(0, 1), st.none() | amounts, amounts, amounts, amounts, amounts, st.integers(0, 10**6),
    st.integers(0, 10**6), st.integers(0, 10**6), words, amounts, st.integers(0, 9),
)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


@given(summaries, st.text(), st.integers(1, 10**5))
def test_what_is_written_is_read(summary: Summary, name: str, gpus: int) -> None:
    key = KEY._replace(name=name, gpus=gpus)
    assert from_object(key, json.loads(json.dumps(as_object(key, summary)))) == summary


@given(st.dictionaries(st.sampled_from(Summary._fields), anything))
def test_whatever_stands_there_is_read_as_something_possible(lies: dict[str, object]) -> None:
    found = from_object(KEY, as_object(KEY, Summary("spread")) | lies)
    if found is None:
        assert lies["decision"] not in DECISIONS
        return
    assert len(found.reasons) <= REASONS
    assert all(len(text) <= LETTERS and text.isprintable() for text in (*found.reasons, found.job, found.architecture))
    numbers = [value for value in found if isinstance(value, int | float)]
    assert all(math.isfinite(value) and value >= 0 for value in numbers)
    assert found.skew is None or found.skew <= 1


@pytest.mark.parametrize(("field", "value"), [("name", "another"), ("script", "f" * 16), ("gpus", 4), ("version", 2)])
def test_what_is_about_others_is_nothing(field: str, value: object) -> None:
    assert from_object(KEY, as_object(KEY, Summary("spread")) | {field: value}) is None


@given(st.text(max_size=300))
def test_a_name_makes_a_plain_file_name_of_its_own(name: str) -> None:
    file = KEY._replace(name=name).file
    assert len(file) < 60
    assert set(file) <= set("0123456789abcdef-.json")
    assert file != KEY._replace(name=name + "x").file


def test_the_number_of_trials_is_bounded() -> None:
    assert Summary("spread", trials=1).is_final
    assert not Summary("unknown", trials=TRIALS - 1).is_final
    assert Summary("unknown", trials=TRIALS).is_final
