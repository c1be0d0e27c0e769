"""The controller's configuration: every option is declared once, here or in PolicyConfig, and checked when it is read.

    flags  >  TIRESIAS_* environment  >  conf.d/*.toml beside the file, last name first  >  the file  >  the declared default

The key `policy.thresholds` is `thresholds` under `[policy]` in a file and TIRESIAS_POLICY_THRESHOLDS in the environment, where
the elements of a list are separated by commas. `[policy.partitions.NAME]` has the keys of `[policy]` for one partition; those that
are not there are as in `[policy]`. A mistake is a UsageError in one line: where, which key, what is allowed.
"""

# ruff: noqa: RUF009  (the calls in dataclass defaults make dataclass fields)

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from tiresias.errors import UsageError
from tiresias.protocol import site_configuration

if TYPE_CHECKING:
    from tiresias.scheduler.config import PolicyConfig
    from tiresias.scheduler.registry import Registry

DEFAULT = "default"
PARTITION_POLICIES = "policy.partitions."  # then the partition's name and a key of [policy]
TABLES = {"tables": True}  # of a field that is no single option


def _option(default: object, doc: str, allowed: str, check: Callable[[Any], bool] = lambda value: True) -> Any:
    return field(default=default, metadata={"doc": doc, "allowed": allowed, "check": check})


def _choice(default: str, doc: str, *choices: str) -> Any:
    return _option(default, doc, ", ".join(choices), lambda value: value in choices)


def _placement(default: str, doc: str, *choices: str) -> Any:
    """One of `choices`, or a placement of an installed package, which is looked for where it is none of them."""
    metadata = {
        "doc": doc,
        "allowed": ", ".join(choices),
        "check": lambda value: value in choices or _placements().is_plugin(value),
        "names": _placements,
    }
    return field(default=default, metadata=metadata)


def _placements() -> Registry[Any]:
    from tiresias.scheduler.place.placements import PLACEMENTS  # it brings numpy, which viewers must not wait for

    return PLACEMENTS


def _seconds(default: float, doc: str, zero: bool = False) -> Any:
    allowed = "a finite number of seconds" + (", 0 or more" if zero else " above 0")
    return _option(default, doc, allowed, lambda value: math.isfinite(value) and (value > 0 or (zero and value == 0)))


def _folder(default: str, doc: str) -> Any:
    return _option(
        Path(default), doc, "an absolute path", lambda value: value.is_absolute() and str(value).isprintable()
    )


def _are_partitions(names: tuple[str, ...]) -> bool:
    return bool(names) and _are_names(names)


def _are_names(names: tuple[str, ...]) -> bool:
    return all(name.isprintable() and name and not set(name) & set(" ,=*") for name in names)


def _are_levels(levels: tuple[str, ...]) -> bool:
    return all(part and not set(part) & set(" \t\n,") for level in levels for part in level.split("|"))


def _policy_class() -> type[PolicyConfig]:
    from tiresias.scheduler.config import PolicyConfig  # it brings numpy, which viewers must not wait for

    return PolicyConfig


@dataclass(frozen=True, slots=True)
class Paths:
    state: Path = _folder(
        "/var/lib/tiresias",
        "the journal: service, runs and what is being done to whom; shared where two controllers are to be",
    )
    run: Path = _folder(site_configuration.RUN, "control.sock, poke.sock, lease and primary; on this host")
    control: Path = _folder(site_configuration.CONTROL, "the jobs' control folders; on the shared file system")
    checkpoints: Path = _folder(
        site_configuration.CHECKPOINTS, "the jobs' checkpoint folders; on the shared file system"
    )


@dataclass(frozen=True, slots=True)
class Preemption:
    signal: str = _choice("USR2", "the checkpoint signal", "USR1", "USR2", "HUP")
    deadline: float = _seconds(
        120.0, "seconds from the signal to a committed checkpoint; a job that takes longer stays"
    )
    final_codes: tuple[int, ...] = _option(
        (93,),
        "exit codes of a job's script after which the job is neither requeued nor resumed; a job's TIRESIAS_FINAL_CODES "
        "replaces them",
        "a list of exit codes from 1 to 255, without 99",
        lambda codes: all(0 < code < 256 and code != 99 for code in codes),
    )
    start_timeout: float = _seconds(30.0, "seconds from a release to RUNNING before the job is held again")
    backoff: float = _seconds(60.0, "seconds before such a job is tried again; doubles up to 16 times", zero=True)


@dataclass(frozen=True, slots=True)
class State:
    keep_days: int = _option(
        365,
        "days for which ended jobs and their runs are remembered, which policies learn from; 0: for ever",
        "a whole number, 0 or more",
        lambda value: value >= 0,
    )


@dataclass(frozen=True, slots=True)
class Placement:
    packlimit: float = _option(
        0.4,
        "the largest tensor's share of a model above which a job with parameter servers is kept on the fewest nodes",
        "a number from 0 to 1",
        lambda value: 0 <= value <= 1,
    )
    levels: tuple[str, ...] = _option(
        ("rack|leaf", "pod|row"),
        "how features of nodes begin that name their leaf switch or rack, then the group above it, and so on; where Slurm has a "
        "topology, that counts",
        'a list of beginnings, several of one level with "|" between them',
        _are_levels,
    )
    islands: tuple[str, ...] = _option(
        ("nvlink", "socket"),
        "features of nodes that say into how many islands their GPUs are divided, such as socket:2; the nearest GPUs first",
        "a list of names",
        _are_names,
    )
    style: str = _placement(
        "skew", "how jobs are put on nodes: by what they send, or all alike; the last three are for comparison",
        "skew", "consolidate", "spread", "first_fit", "load_balancing", "random",
    )  # fmt: skip
    unknown: str = _choice(
        "consolidate", "how jobs are placed of whose tensors nothing is known", "consolidate", "spread"
    )
    trial: str = _choice(
        "two_nodes", "where the first job of a kind runs, whose traffic tsrun records: what stays inside of a node is not seen",
        "two_nodes", "anywhere",
    )  # fmt: skip
    patience: float = _seconds(
        300.0,
        "seconds that a job waits for the fewest nodes of which it is known that more would slow it down",
        zero=True,
    )
    bandwidth: float = _option(
        0.0,
        "Gbit/s of a node's network, one way, for judging all-reduce jobs; 0: as the nodes' own adapters say",
        "a finite number, 0 or more",
        lambda value: math.isfinite(value) and value >= 0,
    )


@dataclass(frozen=True, slots=True)
class Exempt:
    users: tuple[str, ...] = _option((), "users whose jobs are Slurm's alone", "a list of names of users", _are_names)
    accounts: tuple[str, ...] = _option(
        (), "accounts whose jobs are Slurm's alone", "a list of names of accounts", _are_names
    )


@dataclass(frozen=True, slots=True)
class Rpc:
    rate: float = _option(
        100.0,
        "calls to slurmctld a second, on average; 0: no limit. Where Slurm limits our user (rl_enable), four fifths of that count",
        "a finite number, 0 or more",
        lambda value: math.isfinite(value) and value >= 0,
    )
    burst: int = _option(
        500, "calls to slurmctld at once", "a whole number, 20 or more: a preemption and a look at all jobs take a dozen",
        lambda value: value >= 20,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comment:
    field: str = _choice(
        "auto",
        "where squeue shows why a job waits: AdminComment where the controller's user is an Administrator, else Comment where "
        "the job's owner gave none",
        "auto", "AdminComment", "Comment", "none",
    )  # fmt: skip
    interval: float = _seconds(300.0, "seconds between two texts of one job at least")
    per_minute: int = _option(
        120, "calls to slurmctld a minute for comments, at most", "a whole number, 1 or more", lambda value: value >= 1
    )


@dataclass(frozen=True, slots=True)
class Config:
    mode: str = _choice("shadow", "shadow only watches and tells; exact admits, pins and preempts", "shadow", "exact")
    partitions: tuple[str, ...] = _option(
        ("gpu",), "the managed partitions; no other is touched", "a list of names of partitions", _are_partitions
    )
    backend: str = _choice("auto", "how to speak with Slurm; auto prefers pyslurm", "auto", "pyslurm", "commands")
    period: float = _seconds(30.0, "seconds between cycles when nothing wakes the controller")
    poll: float = _seconds(0.1, "seconds between looks at jobs that are being preempted or started")
    paths: Paths = field(default_factory=Paths)
    policy: PolicyConfig = field(default_factory=lambda: _policy_class()())
    preemption: Preemption = field(default_factory=Preemption)
    placement: Placement = field(default_factory=Placement)
    exempt: Exempt = field(default_factory=Exempt)
    rpc: Rpc = field(default_factory=Rpc)
    comment: Comment = field(default_factory=Comment)
    state: State = field(default_factory=State)
    partition_policies: tuple[tuple[str, PolicyConfig], ...] = field(default=(), metadata=TABLES)

    def policy_of(self, partition: str) -> PolicyConfig:
        """Of the jobs of that partition; of several with commas between them, of the first."""
        return dict(self.partition_policies).get(partition.partition(",")[0], self.policy)

    @property
    def lease_seconds(self) -> float:
        """How long etc/job_submit.lua may count on the controller after a cycle: three cycles, 15 s at least."""
        return max(3 * self.period, 15.0)

    @property
    def leader_seconds(self) -> float:
        """How long a leader may be silent before a standby takes over, which takes a second more: within two periods."""
        return max(1.5 * self.period, 3.0)

    @property
    def admission_wait(self) -> int:
        """Seconds that job_submit.lua puts between a new job and Slurm's scheduler. A whole lease, and an odd bit more: by
        the exact length the controller tells this wait from a begin time that the user asked for."""
        return int(self.lease_seconds) + 7


_SECTIONS: dict[str, Callable[[], Any]] = {
    "": lambda: Config,
    "paths": lambda: Paths,
    "policy": _policy_class,
    "preemption": lambda: Preemption,
    "placement": lambda: Placement,
    "exempt": lambda: Exempt,
    "rpc": lambda: Rpc,
    "comment": lambda: Comment,
    "state": lambda: State,
}


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option. `section` is "" at the top level."""

    section: str
    name: str
    kind: Any
    default: Any
    doc: str
    allowed: str
    check: Callable[[Any], bool]
    names: Callable[[], Registry[Any]] | None = None

    def allowed_now(self) -> str:
        """What is allowed, with the names that installed packages register."""
        return ", ".join([self.allowed, *(self.names().plugins() if self.names else ())])

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def variable(self) -> str:
        return "TIRESIAS_" + self.key.upper().replace(".", "_")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked configuration, and for each key where its value comes from."""

    config: Config
    sources: dict[str, str]

    def value(self, key: str) -> Any:
        section, _, name = key.rpartition(".")
        if section.startswith(PARTITION_POLICIES):
            return getattr(self.config.policy_of(section.removeprefix(PARTITION_POLICIES)), name)
        return getattr(getattr(self.config, section) if section else self.config, name)


@dataclass(frozen=True, slots=True)
class _Raw:
    """A value as it was found. `text`: it was given as text, whatever its type."""

    value: object
    source: str
    text: bool = False


def load_config(file: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Config:
    """The checked configuration. `file` None: the default file where it exists. `overrides`: by dotted key; None is not given.

    Raises UsageError.
    """
    return load(file, overrides, environ).config


def load(file: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Loaded:
    known = options()
    found = _from_files(file) | _from_environment(known, environ) | _from_command_line(overrides)
    known |= {key: option for key in found if (option := _of_partition(key, known))}
    for key, raw in found.items():
        if key not in known:
            raise UsageError(f"{raw.source}: unknown key {_word(key)}{_hint(key, [*known, *filter(None, _SECTIONS)])}")
    _refuse_mistyped(environ, [option.variable for option in known.values()])
    values = {key: _convert(known[key], raw) for key, raw in found.items()}
    parts = {section: owner()(**_section(values, section)) for section, owner in _SECTIONS.items() if section}
    policies = _partition_policies(values, parts["policy"])
    config = Config(**_section(values, ""), **parts, partition_policies=policies)
    if unmanaged := [name for name, _ in policies if name not in config.partitions]:
        key = f"{PARTITION_POLICIES}{unmanaged[0]}"
        raise UsageError(f"{_source(found, key)}: {key}: partition {unmanaged[0]} is not managed (partitions)")
    return Loaded(config, {key: found[key].source if key in found else DEFAULT for key in known})


def _of_partition(key: str, known: Mapping[str, Option]) -> Option | None:
    """The option of [policy] that a key such as policy.partitions.debug.min_run sets for one partition."""
    section, _, name = key.rpartition(".")
    option = known.get(f"policy.{name}") if section.startswith(PARTITION_POLICIES) else None
    return option and replace(option, section=section)


def _partition_policies(values: Mapping[str, Any], base: PolicyConfig) -> tuple[tuple[str, PolicyConfig], ...]:
    changes: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if section.startswith(PARTITION_POLICIES):
            changes.setdefault(section.removeprefix(PARTITION_POLICIES), {})[name] = value
    return tuple((name, replace(base, **changes[name])) for name in sorted(changes))


def _source(found: Mapping[str, _Raw], section: str) -> str:
    return next(raw.source for key, raw in found.items() if key.startswith(f"{section}."))


def load_option(key: str, file: Path | None, environ: Mapping[str, str] = os.environ) -> Any:
    """One option alone: what a viewer needs still works while an administrator has a mistake elsewhere in the file."""
    declared = {option.key: option for option in _declared(key.rpartition(".")[0])}
    found = _from_files(file) | _from_environment({key: declared[key]}, environ)
    return _convert(declared[key], found[key]) if key in found else declared[key].default


def options() -> dict[str, Option]:
    """All options by their dotted key, in the order of their declaration."""
    return {option.key: option for section in _SECTIONS for option in _declared(section)}


def _declared(section: str) -> Iterator[Option]:
    owner = _SECTIONS[section]()
    kinds = get_type_hints(owner, localns={"PolicyConfig": object})
    for each in fields(owner):
        if (section or each.name not in _SECTIONS) and "tables" not in each.metadata:
            yield Option(section, each.name, kinds[each.name], each.default, **each.metadata)


def _from_files(file: Path | None) -> dict[str, _Raw]:
    found: dict[str, _Raw] = {}
    for path in _files(file):
        found |= _from_file(path)
    return found


def _from_environment(known: Mapping[str, Option], environ: Mapping[str, str]) -> dict[str, _Raw]:
    return {
        key: _Raw(environ[option.variable], f"environment {option.variable}", True)
        for key, option in known.items()
        if option.variable in environ
    }


def _from_command_line(overrides: Mapping[str, object]) -> dict[str, _Raw]:
    given = {key: value for key, value in overrides.items() if value is not None}
    return {key: _Raw(value, "the command line", isinstance(value, str)) for key, value in given.items()}


def _refuse_mistyped(environ: Mapping[str, str], known: list[str]) -> None:
    """Only a name with a section in it can be a typing mistake: TIRESIAS_CONTROL and many others mean other things."""
    sections = tuple(f"TIRESIAS_{section.upper()}_" for section in _SECTIONS if section)
    for name in environ:
        if name.startswith(sections) and name not in known:
            raise UsageError(f"environment: unknown variable {_word(name)}{_hint(name, known)}")


def _files(file: Path | None) -> list[Path]:
    main = file or site_configuration.FILE
    try:
        drop_ins = site_configuration.drop_ins(main)
        return ([main] if file or main.exists() else []) + drop_ins
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _from_file(path: Path) -> dict[str, _Raw]:
    try:
        content = site_configuration.parse(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: is no TOML: {error}") from error
    return {key: _Raw(value, str(path)) for key, value in _flat(content, path)}


def _flat(content: Mapping[str, Any], path: Path) -> Iterator[tuple[str, object]]:
    for name, value in content.items():
        if not name or name not in _SECTIONS:
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


def _hint(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f": did you mean {close[0]}?"
    section = name.partition(".")[0]  # of a known section its keys, else the sections and what stands outside of them
    near = [key for key in known if key.startswith(f"{section}.")] or [key for key in known if "." not in key]
    return f": allowed are {', '.join(near)}"


def _section(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    return {option.name: values[option.key] for option in _declared(section) if option.key in values}


def _convert(option: Option, raw: _Raw) -> Any:
    try:
        value = (_parsed if raw.text else _typed)(option.kind, raw.value)
        if option.check(value):
            return value
    except (TypeError, ValueError, OverflowError):
        pass
    raise UsageError(f"{raw.source}: {option.key} = {_shown(raw.value)}: allowed: {option.allowed_now()}")


def _typed(kind: Any, value: object) -> Any:
    """`value` as TOML gave it, as `kind`. Raises TypeError or ValueError."""
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError
        return tuple(_typed(get_args(kind)[0], each) for each in value)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind or value != value:  # NaN is never meant
        raise TypeError
    return value


def _parsed(kind: Any, value: object) -> Any:
    """Text from the environment or the command line, as `kind`. Raises TypeError or ValueError."""
    text = str(value).strip()
    if get_origin(kind) is tuple:
        return tuple(_parsed(get_args(kind)[0], each) for each in text.split(",")) if text else ()
    return _typed(kind, kind(text))


def _word(name: str) -> str:
    return name if name.isprintable() and len(name) <= 60 else _shown(name)


def _shown(value: object) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else text[:59] + "…"
