"""What no file of the product does: the ways in which Python programs are usually broken into, looked for in their syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import SOURCE_FOLDERS

ROOT = Path(__file__).parents[2]
FOLDERS = (*SOURCE_FOLDERS, "src/tiresias")
FILES = sorted({file.resolve() for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")})

# What is unpickled or built from tags runs with the rights of the reader.
MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "ruamel",
    "telnetlib",
    "ftplib",
}
CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput",
    "tempfile.mktemp", "hashlib.md5", "hashlib.sha1", "torch.load", "numpy.load", "np.load", "ssl._create_unverified_context",
}  # fmt: skip
# The only texts that may be put together into SQL: names of Tiresias's columns, marks for values, constants; never a value.
SQL = re.compile(r"\b(select|insert|update|delete|create|alter|drop)\b[^.:]*\b(from|into|set|table|index)\b")
SQL_PARTS = {
    "columns", "marks", "table", "where", "one", "epoch", "moving", "ended", "under_way",
    "', '.join(columns)", "', '.join(names)", "', '.join(values)",
    "_UPGRADES[schema]", "schema + 1",
}  # fmt: skip


def name(node: ast.expr) -> str:
    """`os.path.join` of an attribute's chain; "" for what is none."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def sins(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', 0)}: "
        if isinstance(node, ast.Import):
            yield from (where + f"import {one.name}" for one in node.names if one.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in MODULES:
            yield where + f"import {node.module}"
        elif isinstance(node, ast.Call):
            yield from (where + sin for sin in sins_of_call(node))
        elif isinstance(node, ast.JoinedStr):
            yield from (where + sin for sin in sins_of_text(node))


def sins_of_call(node: ast.Call) -> Iterator[str]:
    called = name(node.func)
    if called in CALLS:
        yield called
    if any(
        one.arg == "shell" and not (isinstance(one.value, ast.Constant) and one.value.value is False)
        for one in node.keywords
    ):
        yield f"{called} with a shell"
    runs_sql = called.rpartition(".")[2] in ("execute", "executescript", "executemany") and node.args
    if runs_sql and isinstance(node.args[0], ast.BinOp | ast.Call) and "_TABLES" not in ast.unparse(node.args[0]):
        yield "SQL that is put together by an operator"


def sins_of_text(node: ast.JoinedStr) -> Iterator[str]:
    fixed = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    parts = {ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue)}
    foreign = {part for part in parts - SQL_PARTS if not part.isupper() and not part.startswith("columns(")}
    if SQL.search(fixed) and foreign:
        yield f"{', '.join(sorted(foreign))} in SQL"


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from yaml import load", "import os\nos.system('x')", "eval('1')", "import numpy.x, marshal",
        "subprocess.run(c, shell=True)", "subprocess.run(c, shell=maybe)", "tempfile.mktemp()", "hashlib.md5(b'')",
        "db.execute(f'select x from job where id = {job}')", "db.execute('delete from job where id = ' + job)",
        "db.execute('select {}'.format(x))", "f'insert into {where_from} values (1)'",
    ],
)  # fmt: skip
def test_this_test_finds(text: str) -> None:
    assert list(sins(ast.parse(text)))


def test_no_file_does_what_is_never_safe() -> None:
    assert len(FILES) > 150, "is this test looking at the right place?"
    found = [f"{file.relative_to(ROOT)}: {sin}" for file in FILES for sin in sins(ast.parse(file.read_text()))]
    assert found == []


STARTS = {"subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_output", "subprocess.check_call"}


def test_the_daemon_starts_programs_with_an_environment_of_its_own() -> None:
    """Never with an inherited environment: each call names its own."""
    calls = [
        (file.name, node)
        for file in FILES
        if "slurm_plugin" in file.parts
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and name(node.func) in STARTS
    ]
    assert calls
    assert [file for file, node in calls if not any(one.arg == "env" for one in node.keywords)] == []
    others = re.compile(r"\bos\.(exec|spawn|posix_spawn|fork|popen|system)")
    assert [file for file in FILES if "slurm_plugin" in file.parts and others.search(file.read_text())] == []
