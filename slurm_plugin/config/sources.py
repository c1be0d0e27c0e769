"""Where values come from: the file and its drop-ins, the environment, the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.protocol import environment, site_configuration
from tiresias.slurm_plugin.config.options import Option
from tiresias.slurm_plugin.config.sections import SECTIONS
from tiresias.slurm_plugin.config.values import RawValue, quoted_name

PARTITION_POLICIES = "policy.partitions."  # then the partition's name and a key of [policy]


def from_files(file: Path | None) -> dict[str, RawValue]:
    """Return the values of the file and its drop-ins, by dotted key."""
    found: dict[str, RawValue] = {}
    for path in _files(file):
        found |= _from_file(path)
    return found


def from_environment(known: Mapping[str, Option], environ: Mapping[str, str]) -> dict[str, RawValue]:
    """Return the values of environment variables, by dotted key."""
    return {
        key: RawValue(environ[option.variable], f"environment {option.variable}", True)
        for key, option in known.items()
        if option.variable in environ
    }


def from_command_line(overrides: Mapping[str, object]) -> dict[str, RawValue]:
    """Return the values of command-line options, by dotted key."""
    given = {key: value for key, value in overrides.items() if value is not None}
    return {key: RawValue(value, "the command line", isinstance(value, str)) for key, value in given.items()}


def refuse_mistyped(environ: Mapping[str, str], known: list[str]) -> None:
    """Refuse unknown variables whose names start with a section; others, such as TIRESIAS_CONTROL, have other uses."""
    sections = tuple(environment.of_option(f"{section}.") for section in SECTIONS if section)
    for name in environ:
        if name.startswith(sections) and name not in known:
            raise UsageError(f"environment: unknown variable {quoted_name(name)}{hint(name, known)}")


def _files(file: Path | None) -> list[Path]:
    main = file or site_configuration.FILE
    try:
        drop_ins = site_configuration.drop_ins(main)
        return ([main] if file or main.exists() else []) + drop_ins
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _from_file(path: Path) -> dict[str, RawValue]:
    try:
        content = site_configuration.parse(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: is no TOML: {error}") from error
    return {key: RawValue(value, str(path)) for key, value in _flat(content, path)}


def _flat(content: Mapping[str, Any], path: Path) -> Iterator[tuple[str, object]]:
    for name, value in content.items():
        if not name or name not in SECTIONS:
            yield name, value
        elif isinstance(value, dict):
            for key, inner in value.items():
                nested = f"{name}.{key}." == PARTITION_POLICIES and isinstance(inner, dict)
                yield from _tables(inner, path) if nested else [(f"{name}.{key}", inner)]
        else:
            raise UsageError(f"{path}: {name} must be a table: write [{name}] and its keys below")


def _tables(tables: Mapping[str, Any], path: Path) -> Iterator[tuple[str, object]]:
    for partition, table in tables.items():
        key = f"{PARTITION_POLICIES}{partition}"
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {key} must be a table: write [{key}] and its keys below")
        yield from ((f"{key}.{name}", value) for name, value in table.items())


def hint(name: str, known: list[str]) -> str:
    """Return the end of a message on an unknown name: the closest known one, or those that are allowed."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f": did you mean {close[0]}?"
    section = name.partition(".")[0]  # of a known section its keys, else the sections and what stands outside of them
    near = [key for key in known if key.startswith(f"{section}.")] or [key for key in known if "." not in key]
    return f": allowed are {', '.join(near)}"
