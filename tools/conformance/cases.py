"""The cases: each operator of torch's database with its first sample, and with a random one of another dtype."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

SEED = 2026
"""Chooses the random samples; every run prints it."""

# Any: torch's OpInfo, which has no useful types.
OpTable = dict[str, Any]

_OTHERS = {
    "cpu": (torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64),
    "cuda": (torch.bfloat16,),
}
"""By device, of which dtypes the second sample may be."""
_SAMPLES = 8  # how far into an operator's samples a random case looks


@dataclass(frozen=True, slots=True, order=True)
class CaseId:
    """One case. `op` is the operator's name, with its variant after a dot.

    `sample` counts from 0; beyond the last sample of the operator, it is the last one.
    """

    op: str
    dtype: str
    sample: int
    seed: int

    def __str__(self) -> str:
        return f"{self.op} {self.dtype} #{self.sample}"


@dataclass(frozen=True, slots=True)
class Call:
    """An operator as a function of its tensor inputs.

    `tolerances` are (rtol, atol), None for assert_close's own. `has_vectors`: results are vectors of a
    decomposition, each unique up to its sign or phase.
    """

    function: Callable[..., Any]  # Any: an operator's results are its own
    inputs: tuple[Tensor, ...]
    tolerances: tuple[float, float] | None
    has_vectors: bool = False


_VECTORS = ("linalg.eigh", "linalg.svd", "pca_lowrank", "svd", "svd_lowrank")
"""Operators that return singular vectors or eigenvectors."""


def op_table() -> OpTable:
    """Returns torch's database by name; the first call takes seconds."""
    from torch.testing._internal import common_methods_invocations as database

    # Random operators are wrapped in a function that sets the seed, which no compiler may do: each call here
    # starts from a seed anyway.
    database.wrapper_set_seed = _without_seed  # type: ignore[attr-defined]  # it imports the name
    return {_name(op): op for op in database.op_db}


def _without_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def list_cases(table: OpTable, seed: int = SEED, device: str = "cpu") -> list[CaseId]:
    """All cases, in the database's order; operators that the device does not support have none."""
    return [case for name, op in table.items() for case in _cases_of(name, op, seed, device)]


def _cases_of(name: str, op: Any, seed: int, device: str) -> Iterator[CaseId]:
    supported = op.supported_dtypes(device)
    if not supported:
        return
    first = torch.float32 if torch.float32 in supported else min(supported, key=str)
    yield CaseId(name, _dtype_name(first), 0, seed)
    rng = random.Random(f"{seed}:{name}")
    others = [dtype for dtype in _OTHERS[device] if dtype in supported and dtype != first]
    if others:
        yield CaseId(name, _dtype_name(rng.choice(others)), rng.randrange(_SAMPLES), seed)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def stratified(cases: Sequence[CaseId], count: int) -> list[CaseId]:
    """About `count` cases, in their order: of each dtype its share, from all over the database."""
    ordered = sorted(range(len(cases)), key=lambda i: (cases[i].dtype, i))
    step = max(1.0, len(ordered) / max(1, count))
    selection = {ordered[int(n * step)] for n in range(count) if n * step < len(ordered)}
    return [cases[i] for i in sorted(selection)]


def every(cases: Sequence[CaseId], step: int) -> list[CaseId]:
    """The cases of every `step`th operator, the first one's among them."""
    operators = list(dict.fromkeys(case.op for case in cases))[::step]
    return [case for case in cases if case.op in set(operators)]


def load_call(case: CaseId, table: OpTable, device: str = "cpu") -> Call:
    """The case's inputs on a device, equal in every process."""
    op = table[case.op]
    dtype: torch.dtype = getattr(torch, case.dtype)  # by string: the dtype's own name
    sample = _sample(op, dtype, case, device)
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def function(*tensors: Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(filled, spec)
        return op.op(first, *args, **kwargs)

    return Call(
        function,
        tuple(leaves[i].detach() for i in places),
        tolerances_of(op, dtype, device),
        _name(op) in _VECTORS,
    )


def _sample(op: Any, dtype: torch.dtype, case: CaseId, device: str) -> Any:
    torch.manual_seed(case.seed)
    random.seed(case.seed)
    samples = op.sample_inputs(device, dtype, requires_grad=False)
    *_, last = islice(samples, case.sample + 1)
    del samples
    gc.collect(1)  # or the generator would be finalised in the middle of a trace, which upsets the tracer
    return last


def tolerances_of(op: Any, dtype: torch.dtype, device: str = "cpu") -> tuple[float, float] | None:
    """The widest (rtol, atol) that the database states for the operator and dtype in any test of results."""
    from torch.testing._internal.common_device_type import toleranceOverride

    stated = [
        decorator.d[dtype]
        for info in op.decorators
        for decorator in getattr(info, "decorators", ())  # plain decorators state nothing
        if isinstance(decorator, toleranceOverride) and dtype in decorator.d
        if info.device_type in (None, device)
    ]
    if not stated:
        return None
    default = torch.testing._comparison.default_tolerances(dtype)
    return (max(default[0], *(t.rtol for t in stated)), max(default[1], *(t.atol for t in stated)))
