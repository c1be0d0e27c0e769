"""The choices that a batch script states."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.protocol import batch_script_statements
from tiresias.protocol.batch_script_statements import INSERTED, MARKER, OwnerChoices
from tiresias.wrappers import batch_script, inserted

SCRIPT = b"#!/bin/sh\n#SBATCH --time=5\ntrue\n"
SERVERS = "1-8:2+1-4*4"


def submitted(settings: dict[str, str], is_inserted: bool, script: bytes = SCRIPT) -> bytes:
    """As Slurm keeps it of a submission with these settings."""
    if is_inserted:
        first, _, rest = script.partition(b"\n")
        return first + b"\n" + inserted.text("python3", "/lib", settings) + rest
    return batch_script.compose(script, "python3", "/lib", settings)


@pytest.mark.parametrize("is_inserted", [True, False])
@pytest.mark.parametrize(
    ("settings", "choices"),
    [
        ({}, OwnerChoices("yes", "fixed")),
        ({"TIRESIAS_ELASTIC": "1-4"}, OwnerChoices("yes", "1-4")),
        ({"TIRESIAS_ELASTIC": SERVERS, "TIRESIAS_OPPORTUNISTIC": "restart"}, OwnerChoices("restart", SERVERS)),
        ({"TIRESIAS_ELASTIC": "4-1", "TIRESIAS_OPPORTUNISTIC": "maybe"}, OwnerChoices("yes", "fixed")),
        ({"TIRESIAS_ELASTIC": "fixed"}, OwnerChoices("yes", "fixed")),
    ],
)
def test_the_choices_of_the_submission(settings: dict[str, str], choices: OwnerChoices, is_inserted: bool) -> None:
    assert batch_script_statements.choices(submitted(settings, is_inserted)) == choices


@pytest.mark.parametrize("is_inserted", [True, False])
def test_lines_of_the_users_script_state_nothing(is_inserted: bool) -> None:
    own = SCRIPT + b"export TIRESIAS_ELASTIC=2-8\nexport TIRESIAS_OPPORTUNISTIC=restart\n"
    assert batch_script_statements.choices(submitted({}, is_inserted, own)) == OwnerChoices("yes", "fixed")


def test_a_script_of_plain_sbatch_has_a_fixed_size() -> None:
    own = SCRIPT + b"export TIRESIAS_ELASTIC=2-8\n"
    assert batch_script_statements.choices(own) == OwnerChoices("", "fixed")


@given(st.binary(), st.text(), st.sampled_from([MARKER, INSERTED, b""]))
def test_any_script_is_read(script: bytes, value: str, marker: bytes) -> None:
    line = f"export TIRESIAS_ELASTIC={value}\n".encode(errors="replace")
    found = batch_script_statements.choices(script + b"\n" + line + marker + script)
    assert found.opportunistic in ("", "yes", "no", "restart", "saves")
    assert found.elastic


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\n")))
def test_what_is_no_size_is_none(value: str) -> None:
    text = submitted({"TIRESIAS_ELASTIC": value}, is_inserted=True)
    assert batch_script_statements.choices(text).elastic in ("fixed", shlex.split(shlex.quote(value))[0])
