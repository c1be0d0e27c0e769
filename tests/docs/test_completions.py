"""The completions in the shells themselves: each loads, and completes a command and an option."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pages", Path(__file__).parents[2] / "docs/pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completions")
    for name, text in load().completions().items():
        (folder / Path(name).name).write_text(text)
    return folder


def shell(folder: Path, name: str, *words: str) -> list[str]:
    if not shutil.which(name):
        pytest.skip(f"{name} is not here: apt-get install {name}")
    done = subprocess.run(
        [name, *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


BASH = """
source ./tiresias.bash
COMP_WORDS=(tiresias {0}) COMP_CWORD={1} COMP_LINE="tiresias {0}" COMP_POINT=${{#COMP_LINE}}
function=$(complete -p tiresias | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" tiresias "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# zsh completes in a terminal only: one is made, in which the command prints its arguments.
ZSH = """
zmodload zsh/zpty
zpty terminal zsh -f -i
zpty -w terminal 'unset zle_bracketed_paste; PS1=; fpath=($PWD $fpath); autoload -U compinit; compinit -u -D'
zpty -w terminal 'tiresias() {{ print -r -- "go""t:$* :en""d" }}; print rea""dy'
zpty -r -m terminal line "*ready*"
zpty -w -n terminal "tiresias {0}"$'\\t\\n'
zpty -r -m terminal line "*got:* :end*"
print -r -- ${{${{line#*got:}}% :end*}}
zpty -d terminal
"""


@pytest.mark.parametrize(("typed", "expected"), [("sta", "status"), ("status --js", "--json"), ("sandbox do", "down")])
def test_bash(folder: Path, typed: str, expected: str) -> None:
    assert shell(folder, "bash", "--norc", "-c", BASH.format(typed, len(typed.split()))) == [expected]


@pytest.mark.parametrize(("typed", "expected"), [("sta", "status"), ("status --js", "--json"), ("sandbox do", "down")])
def test_fish(folder: Path, typed: str, expected: str) -> None:
    assert expected in shell(folder, "fish", "-N", "-c", f"source tiresias.fish; complete -C 'tiresias {typed}'")


@pytest.mark.parametrize(("typed", "expected"), [("sta", "status"), ("status --js", "--json")])
def test_zsh(folder: Path, typed: str, expected: str) -> None:
    assert shell(folder, "zsh", "-f", "-c", ZSH.format(typed))[-1] == expected
