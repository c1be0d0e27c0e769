"""Finding the script among sbatch's options; the table is compared with real sbatches."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.sandbox.cluster import Cluster
from tiresias.wrappers import sbatch_options as table
from tiresias.wrappers.sbatch_options import CommandLine, UnsupportedOptions, split

VALUES = st.text(min_size=1).filter(lambda text: "\0" not in text)
PLAIN = sorted(table.WITHOUT_VALUE - table.ANSWERS)
VALUED = sorted(table.WITH_VALUE - table.ANSWERS - {"wrap"})
OPTIONS = st.one_of(
    st.tuples(st.sampled_from(VALUED), VALUES).map(lambda pair: [f"--{pair[0]}", pair[1]]),
    st.tuples(st.sampled_from(VALUED + PLAIN), VALUES).map(lambda pair: [f"--{pair[0]}={pair[1]}"]),
    st.sampled_from(PLAIN).map(lambda name: [f"--{name}"]),
    st.tuples(st.sampled_from(sorted(table.SHORT_WITH_VALUE)), VALUES).map(lambda pair: [f"-{pair[0]}", pair[1]]),
    st.tuples(st.sampled_from(sorted(table.SHORT_WITH_VALUE)), VALUES).map(lambda pair: [f"-{pair[0]}{pair[1]}"]),
    st.tuples(st.sampled_from("vHQOW"), st.sampled_from("np"), VALUES).map(
        lambda three: [f"-{three[0]}{three[1]}", three[2]]
    ),
    st.sampled_from(["-v", "-vv", "-H", "-s", "-k", "-sfoo", "--part", "--jo=x"]).map(
        lambda word: [word, "gpu"] if word == "--part" else [word]
    ),
)


@given(st.lists(OPTIONS), st.lists(VALUES))
def test_the_script_is_the_first_word_that_is_no_option(options: list[list[str]], arguments: list[str]) -> None:
    words = [word for option in options for word in option]
    assert split([*words, "job.sh", *arguments]) == CommandLine(words, ["job.sh", *arguments], None)
    assert split([*words, "--", "-job.sh"]) == CommandLine(words, ["-job.sh"], None)


@given(st.lists(OPTIONS), st.lists(OPTIONS), VALUES, st.sampled_from(["--wrap", "--wrap=", "--wra="]))
def test_wrap_is_taken_out(before: list[list[str]], after: list[list[str]], command: str, spelling: str) -> None:
    words = [[word for option in options for word in option] for options in (before, after)]
    wrap = [spelling + command] if spelling.endswith("=") else [spelling, command]
    assert split([*words[0], *wrap, *words[1]]) == CommandLine(words[0] + words[1], [], command)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--new-in-2030", "4", "job.sh"], "--new-in-2030"),
        (["-y", "job.sh"], "-y"),
        (["-n", "2", ":", "-n", "4", "job.sh"], "heterogeneous"),
        (["--nodes"], "without its value"),
        (["--no", "4", "job.sh"], "--no"),  # --nodes takes a value, --no-kill does not
        (["--help"], "^$"),
        (["-N2", "--vers"], "^$"),
        (["-vh"], "^$"),
    ],
)
def test_the_rest_is_for_sbatch(words: list[str], why: str) -> None:
    with pytest.raises(UnsupportedOptions, match=why):
        split(words)


@pytest.mark.sandbox
@pytest.mark.parametrize("suite", ["forky", "trixie", "bookworm"])
def test_the_table_is_what_sbatch_reads(cluster_of: Callable[..., Cluster], suite: str) -> None:
    """By getopt: it refuses an option without its value; one that is valid and accepted takes none."""
    cluster = cluster_of(suite)
    words = [f"--{name}" for name in table.WITH_VALUE | table.WITHOUT_VALUE] + [
        f"-{letter}" for letter in table.SHORT_WITH_VALUE | table.SHORT_WITHOUT_VALUE
    ]

    def asks_for_value(word: str) -> bool | None:
        error = cluster.run(["sbatch", "--test-only", word], user="alice", input="", check=False, timeout=60).stderr
        return None if "unrecognized option" in error or "invalid option" in error else "requires an argument" in error

    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(words, pool.map(asks_for_value, words), strict=True))
    expected = {f"--{name}" for name in table.WITH_VALUE} | {f"-{letter}" for letter in table.SHORT_WITH_VALUE}
    known = {word for word, answer in found.items() if answer is not None}
    assert {word for word, answer in found.items() if answer} == expected & known
    help_text = cluster.run(["sbatch", "--help"], user="alice").stdout
    listed = set(re.findall(r"^ +(?:-\w, )?--([a-z][a-z-]+)", help_text, re.MULTILINE))
    assert listed <= table.WITH_VALUE | table.WITHOUT_VALUE
    assert len(known) > 120
