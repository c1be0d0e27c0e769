"""Where sbatch's options end and its script begins.

sbatch reads its options with getopt_long(3), stopping at the first word that is no option. To find that word a parser needs the
options that take the word after them. The table is the union of what sbatch 22.05, 24.11 and 26.05 accept (sbatch(1) and their
hidden spellings); a test compares it with each of these. Other options are left to sbatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_WITH_VALUE = """
    account acctg-freq array autocomplete batch bb bbf begin chdir cluster cluster-constraint clusters comment constraint container
    container-id container-type core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency
    distribution error exclude export export-file extra extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket
    gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind
    mem-per-cpu mem-per-gpu mem-update mincpus network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
    ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output partition power prefer priority profile qos reservation
    resources segment signal sockets-per-node switches tasks-per-node thread-spec threads-per-core time time-min tmp tres-bind
    tres-per-task uid wait-all-nodes wckey wrap
"""
_WITHOUT_VALUE = """
    consolidate-segments contiguous exclusive external get-user-env help hold ignore-pbs nice no-kill no-requeue oom-kill-step
    overcommit oversubscribe parsable propagate quiet reboot requeue resv-ports spread-job spread-segments stepmgr test-only
    usage use-min-nodes verbose version wait
"""
WITH_VALUE = frozenset(_WITH_VALUE.split())
WITHOUT_VALUE = frozenset(_WITHOUT_VALUE.split())  # or with one that must be attached: --nice=5
SHORT_WITH_VALUE = frozenset("abcdeimnopqtwxABCDFGJLMNS")
SHORT_WITHOUT_VALUE = frozenset("hksvHOQVW")
LONG = {
    "A": "account",
    "D": "chdir",
    "G": "gpus",
    "J": "job-name",
    "p": "partition",
    "Q": "quiet",
    "b": "begin",
    "t": "time",
}  # the ones that tsbatch reads
OWN = frozenset(
    {"checkpoint", "steps-from", "opportunistic", "elastic", "servers", "remote-mem"}
)  # of tsbatch; sbatch does not get them
ANSWERS = frozenset({"help", "usage", "version", "autocomplete"})  # sbatch prints something and submits nothing


class UnsupportedOptions(Exception):
    """The command line is passed to sbatch unchanged; the message gives the reason."""


class CommandLine(NamedTuple):
    """A command line of sbatch: all words of options but --wrap, the script and its arguments, and the command of --wrap."""

    options: list[str]
    operands: list[str]
    wrap: str | None


def split(words: Sequence[str]) -> CommandLine:
    """Split a command line of sbatch. Raises UnsupportedOptions."""
    rest = list(words)
    options: list[str] = []
    wrap: str | None = None
    for word, value in _options(rest):
        if _long_names(word) == {"wrap"}:
            wrap = value[0] if value else word.partition("=")[2]
        else:
            options += [word, *value]
    if rest and rest[0] == ":":
        raise UnsupportedOptions("a heterogeneous job")
    return CommandLine(options, rest, wrap)


def without_own(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line without tsbatch's own options, and these, the last value of each. Raises UnsupportedOptions."""
    rest, kept, own, taken = list(words), [], {}, 0
    for word, value in _options(rest):
        taken += 1 + len(value)
        names = _long_names(word)
        if names & OWN:
            own[next(iter(names))] = value[0] if value else word.partition("=")[2]
        else:
            kept += [word, *value]
    end = words[taken : len(words) - len(rest)]  # the word that ends the options, where there is one: --
    return [*kept, *end, *rest], own


def named(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and value of each option, in order. Raises UnsupportedOptions.

    The name is the long one, or the letter where that is not in LONG; the value is "" for options without one.
    """
    return [pair for word, value in _options(list(words)) for pair in _meaning(word, value)]


def _options(rest: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Takes the options from the front of `rest`: each with the word that is its value, where it stands in one of its own."""
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            return
        yield word, _value_words(word, rest)


def _meaning(word: str, value: list[str]) -> Iterator[tuple[str, str]]:
    if word.startswith("--"):
        yield from ((name, value[0] if value else word.partition("=")[2]) for name in _long_names(word))
        return
    for position, letter in enumerate(word[1:], 2):
        attached = letter in SHORT_WITH_VALUE or letter in "ks"
        yield LONG.get(letter, letter), "".join(value) or word[position:] if attached else ""
        if attached:
            return


def _value_words(word: str, rest: list[str]) -> list[str]:
    """Take the option's value from `rest` where it stands in a word of its own."""
    if not _takes_next(word):
        return []
    if not rest:
        raise UnsupportedOptions(f"{word} without its value")
    return [rest.pop(0)]


def _takes_next(word: str) -> bool:
    if not word.startswith("--"):
        return _short_takes_next(word[1:])
    names = _long_names(word)
    if names & ANSWERS:
        raise UnsupportedOptions("")
    return names <= WITH_VALUE | OWN and "=" not in word


def _long_names(word: str) -> set[str]:
    """The options that a long word may mean; abbreviations of one kind are as good as one option."""
    if not word.startswith("--"):
        return set()
    typed = word[2:].partition("=")[0]
    every = WITH_VALUE | WITHOUT_VALUE | OWN
    names = {typed} if typed in every else {name for name in every - OWN if name.startswith(typed)}
    if not names or not (names <= WITH_VALUE | OWN or names <= WITHOUT_VALUE):
        raise UnsupportedOptions(f"the option --{typed:.40}")
    return names


def _short_takes_next(letters: str) -> bool:
    """-vHn4: letters without value, then at most one with its value attached or in the next word."""
    for position, letter in enumerate(letters):
        if letter in SHORT_WITH_VALUE:
            return position == len(letters) - 1
        if letter in "hV":
            raise UnsupportedOptions("")
        if letter not in SHORT_WITHOUT_VALUE:
            raise UnsupportedOptions(f"the option -{letter}")
        if letter in "ks":  # their values, if any, are attached
            return False
    return False
