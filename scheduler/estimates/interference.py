"""How much the jobs of a node slow each other: the time of a step beside others, divided by its time alone.

    slowdown = 1 + a (exp(b (u + U)) - exp(b u)) + c m M + d p P + e n N

u, m, p and n are what the job itself uses of the processors of its socket, of their memory bandwidth, of their PCIe link and of its
network link when it runs alone; U, M, P and N are what the others use of them; each as a part of the capacity. Processors
slow no job until they are used up, hence the exponential; a transfer takes longer in proportion to what the others transfer. The
coefficients are fitted by non-negative least squares of relative errors, b by a search. marl-placement, section V, with memory and
network added and with its own forms of the terms, which the paper names in words. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates.nonnegative import nonnegative_least_squares
from tiresias.scheduler.model import Bools, Floats

MOST_SLOWDOWN = 1000.0  # a measured one beyond this, or below its inverse, is no measurement
_EXPONENTS = np.geomspace(0.25, 32.0, 15)
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
_ROUNDS = 24  # of the search for the exponent: each makes the interval _GOLDEN times as long
_FOLDS = 5


class Contention(NamedTuple):
    """What jobs use of shared parts of their nodes, as parts of the capacity; each field of shape (samples,).

    Attributes:
        cpu: Of the processors of the job's socket, by the job alone.
        cpu_others: Of the same by the others (`cpu_of_others`).
        memory: Of the bandwidth of the memory of that socket, by the job alone.
        memory_others: Of the same by the others of that socket.
        pcie: Of the link between that socket and its GPUs, by the job alone.
        pcie_others: Of the same by the others of that socket.
        network: Of the network link that is used most, by the job alone.
        network_others: Of the same by the others.
    """

    cpu: Floats
    cpu_others: Floats
    memory: Floats
    memory_others: Floats
    pcie: Floats
    pcie_others: Floats
    network: Floats
    network_others: Floats

    def part(self, rows: Bools) -> Contention:
        """Return some of the samples."""
        return Contention(*(column[rows] for column in self))


def cpu_of_others(same_socket: Floats, other_sockets: Floats) -> Floats:
    """Return what others use of the processors of a socket: those of the socket, and what does not fit into the other sockets.

    Args:
        same_socket: Use by the other jobs of the socket, as a part of its processors, shape (samples,).
        other_sockets: Use of the other sockets by their own jobs, as a part of the processors, shape (samples,).
    """
    return same_socket + np.maximum(other_sockets - 1.0, 0.0)


class InterferenceForm(NamedTuple):
    """A form of the model.

    Attributes:
        name: For tables and files.
        labels: What each coefficient is of.
        terms: Contention and exponent -> what each coefficient is multiplied by, shape (samples, coefficients).
        has_exponent: Whether the exponent matters.
    """

    name: str
    labels: tuple[str, ...]
    terms: Callable[[Contention, float], Floats]
    has_exponent: bool = False


def _exponential_cpu(found: Contention, exponent: float) -> Floats:
    return np.asarray(np.exp(exponent * found.cpu) * np.expm1(exponent * found.cpu_others))


def _of_memory_and_network(found: Contention) -> tuple[Floats, Floats]:
    return found.memory * found.memory_others, found.network * found.network_others


def _transfers(found: Contention) -> tuple[Floats, Floats, Floats]:
    return (*_of_memory_and_network(found), found.pcie * found.pcie_others)


def _columns(*columns: Floats) -> Floats:
    return np.stack(columns, axis=1)


def _squared(*columns: Floats) -> Floats:
    return _columns(*columns, *(column**2 for column in columns))


_TRANSFERS = ("memory", "network", "pcie")  # the order of `_transfers`
_LINEAR = ("cpu", *_TRANSFERS)
NONE = InterferenceForm("none", (), lambda found, exponent: np.zeros((len(found.cpu), 0)))
WITHOUT_CPU = InterferenceForm("without cpu", _TRANSFERS, lambda found, exponent: _columns(*_transfers(found)))
LINEAR = InterferenceForm("linear", _LINEAR, lambda found, exponent: _columns(found.cpu_others, *_transfers(found)))
QUADRATIC = InterferenceForm(
    "quadratic",
    (*_LINEAR, *(f"{each} squared" for each in _LINEAR)),
    lambda found, exponent: _squared(found.cpu_others, *_transfers(found)),
)
WITHOUT_PCIE = InterferenceForm(
    "without pcie",
    _LINEAR[:-1],
    lambda found, exponent: _columns(_exponential_cpu(found, exponent), *_of_memory_and_network(found)),
    has_exponent=True,
)
EXPONENTIAL = InterferenceForm(
    "exponential",
    _LINEAR,
    lambda found, exponent: _columns(_exponential_cpu(found, exponent), *_transfers(found)),
    has_exponent=True,
)
FORMS = (NONE, WITHOUT_CPU, LINEAR, WITHOUT_PCIE, EXPONENTIAL, QUADRATIC)  # those with fewer coefficients first


class InterferenceModel(NamedTuple):
    """A fitted form.

    Attributes:
        form: The form.
        coefficients: 0 or more, shape (coefficients,).
        exponent: b of the form; 0: it has none.
    """

    form: InterferenceForm
    coefficients: Floats
    exponent: float = 0.0

    def slowdown(self, found: Contention) -> Floats:
        """Return the time of a step beside the others divided by its time alone, 1 or more, shape (samples,)."""
        excess = _terms(self.form, found, self.exponent) @ self.coefficients
        return np.asarray(np.minimum(1.0 + excess, MOST_SLOWDOWN))


NO_INTERFERENCE = InterferenceModel(NONE, np.zeros(0))


def usable(found: Contention, slowdown: Floats) -> Bools:
    """Return which samples count: what is finite, not negative, and no slowdown that no node can have, shape (samples,)."""
    uses = np.stack(found, axis=1)
    possible = np.isfinite(uses).all(axis=1) & (uses >= 0.0).all(axis=1) & np.isfinite(slowdown)
    return np.asarray(possible & (slowdown > 1.0 / MOST_SLOWDOWN) & (slowdown < MOST_SLOWDOWN))


def fit(form: InterferenceForm, found: Contention, slowdown: Floats) -> InterferenceModel:
    """Return the model with the least squared relative errors. O(samples) for each exponent tried.

    Args:
        form: One of FORMS.
        found: The contention of each sample.
        slowdown: The measured one, shape (samples,); samples that are not `usable` do not count.
    """
    rows = usable(found, slowdown)
    found, slowdown = found.part(rows), slowdown[rows]
    if not form.has_exponent:
        return _fitted(form, found, slowdown, 0.0)[1]
    losses = [_fitted(form, found, slowdown, exponent)[0] for exponent in _EXPONENTS.tolist()]
    best = int(np.argmin(losses))
    low, high = _EXPONENTS[max(best - 1, 0)], _EXPONENTS[min(best + 1, len(_EXPONENTS) - 1)]
    exponent = _least(lambda one: _fitted(form, found, slowdown, one)[0], float(low), float(high))
    return _fitted(form, found, slowdown, exponent)[1]


def best_model(found: Contention, slowdown: Floats, forms: Sequence[InterferenceForm] = FORMS) -> InterferenceModel:
    """Return the model of the form with the least cross-validated error; no interference unless another one is surely better.

    Args:
        found: The contention of each sample.
        slowdown: The measured one, shape (samples,).
        forms: Those that are compared.
    """
    without = held_out_errors(NONE, found, slowdown)
    if len(without) < _FOLDS:
        return NO_INTERFERENCE
    errors = {form: held_out_errors(form, found, slowdown) for form in forms}
    better = [form for form in forms if is_surely_less(errors[form], without)]
    best = min(better, key=lambda form: float(errors[form].mean()), default=NONE)
    return fit(best, found, slowdown)


def held_out_errors(form: InterferenceForm, found: Contention, slowdown: Floats) -> Floats:
    """Return the relative error of each usable sample, predicted by a fit to the other folds."""
    rows = usable(found, slowdown)
    found, slowdown = found.part(rows), slowdown[rows]
    fold = np.arange(len(slowdown)) % _FOLDS
    errors = np.zeros(len(slowdown))
    for number in range(min(_FOLDS, len(slowdown))):
        held = fold == number
        model = fit(form, found.part(~held), slowdown[~held])
        errors[held] = np.abs(model.slowdown(found.part(held)) / slowdown[held] - 1.0)
    return errors


def is_surely_less(errors: Floats, others: Floats) -> bool:
    """Return whether the mean is less by more than two standard errors of the paired differences."""
    gain = others - errors
    return bool(gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)))


def _terms(form: InterferenceForm, found: Contention, exponent: float) -> Floats:
    """Return the terms of a form; they are finite, so that no coefficient of 0 makes nan of them."""
    with np.errstate(over="ignore"):
        return np.minimum(form.terms(found, exponent), float(np.finfo(np.float32).max))


def _fitted(
    form: InterferenceForm, found: Contention, slowdown: Floats, exponent: float
) -> tuple[float, InterferenceModel]:
    """Return the squared relative errors and the model with that exponent."""
    columns = _terms(form, found, exponent) / slowdown[:, None]
    target = (slowdown - 1.0) / slowdown
    coefficients = nonnegative_least_squares(columns, target)
    errors = columns @ coefficients - target
    return float(errors @ errors), InterferenceModel(form, coefficients, exponent)


def _least(loss: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function with one minimum is least, by golden-section search."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_ROUNDS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2.0
