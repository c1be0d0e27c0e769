"""`printable` is the gate: whatever goes in, what comes out is one harmless line that fits."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tiresias.slurm_plugin.views.text import clock, duration, gpu_time, printable, service, time_left

ANYTHING = st.text(st.characters(exclude_categories=[]), max_size=80)  # surrogates, too


@given(ANYTHING, st.integers(0, 60))
def test_it_fits_and_holds_nothing_that_moves_the_cursor(text: str, limit: int) -> None:
    line = printable(text, limit)
    assert cell_len(line) <= limit
    assert sum(cell_len(character) for character in line) == cell_len(line)
    for character in line:
        assert unicodedata.category(character)[0] not in "CM"
        assert unicodedata.bidirectional(character) not in {"R", "AL", "AN", "RLO", "LRO", "RLE", "LRE", "PDF"}
    line.encode()


@given(ANYTHING)
def test_twice_changes_nothing_more(text: str) -> None:
    once = printable(text, 40)
    assert printable(once, 40) == once


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40))
def test_plain_names_stay_as_they_are(text: str) -> None:
    assert printable(text, 40) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc", "a b c"),
        ("\x1b[31mred\x1b[0m", "?[31mred?[0m"),
        ("\x1b]0;title\x07", "?]0;title?"),
        ("[bold red]x[/]", "[bold red]x[/]"),
        ("evil\u202egnp.exe", "evil?gnp.exe"),
        ("zero\u200bwidth", "zero?width"),
        ("Zoe\u0308", "Zoë"),
        ("训练", "训练"),
        ("שלום", "????"),
        ("\ud800", "?"),
        ("🇺🇳👩\u200d💻", "??👩?💻"),
        ("\x9b31m", "?31m"),
    ],
)
def test_hostile_names(text: str, shown: str) -> None:
    assert printable(text, 40) == shown


def test_cut_at_cells_not_letters() -> None:
    assert printable("abcdef", 4) == "abc…"
    assert printable("训练任务", 5) == "训练…"
    assert printable("训练任务", 4) == "训…"
    assert printable("abc", 0) == ""


def test_a_megabyte_costs_no_more_than_a_line() -> None:
    began = time.process_time()
    for _ in range(1000):
        printable("é" * 1_000_000, 30)
    assert time.process_time() - began < 5  # 1000 full scans would take minutes


def test_words_for_numbers() -> None:
    assert [duration(each) for each in (-5, 0, 59.9, 245, 12_000, 1_050_000)] == [
        "0s",
        "0s",
        "59s",
        "4m05s",
        "3h20m",
        "12d03h",
    ]
    assert [gpu_time(each) for each in (0, 3200, 45_000, 9_000_000)] == ["0 s", "3200 s", "12.5 h", "2,500 h"]
    assert service(45_000) == "12.5 GPU-h"


def test_the_date_appears_when_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert clock(1_780_000_000, 1_780_000_100) == "20:26:40"
    assert clock(1_780_000_000, 1_780_100_000) == "28 May 20:26"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5.0, "less than a minute"),
        (29.0, "less than a minute"),
        (1500.0, "about 25 min"),
        (3599.0, "about 1 h"),
        (7800.0, "about 2 h 10 min"),
        (86399.0, "about 1 day"),
        (3 * 86400.0 + 4 * 3600, "about 3 days 4 h"),
    ],
)
def test_the_time_left_has_at_most_two_units(seconds: float, text: str) -> None:
    assert time_left(seconds) == text
