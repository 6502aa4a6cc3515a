"""Observes all effects of a call, so that two ways to run it can be compared: results, mutated arguments,
shared memory, sizes of storages, and the random state afterwards.

Compiling a kernel takes seconds: `together` combines many small cases in one model, whose kernels Inductor
fuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import wrapper_ir
from inductor_frontend import capture
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.operators.policy import ALL_OPERATORS
from wrapper_ir.plugins.protocols import OperatorEmitter
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir_runtime.interp import InterpOptions, call

# Any in this file: nested arguments and results of any model.
Run = Callable[..., Any]

_POISON = 0x7B  # uninitialised memory in the interpreter: a read of it shows in the results


@dataclass(frozen=True, slots=True)
class Case:
    """A function and example arguments."""

    function: Run
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """The effects of one call.

    `sharing`: for each tensor (arguments, then results) the first one over the same storage. `windows`:
    offset, sizes and strides of each. `storages`: the bytes of the arguments' storages. `random`: the random
    state afterwards. Tensors are named by their path.
    """

    results: Any
    args: Any
    sharing: Mapping[str, str]
    windows: Mapping[str, tuple[int, tuple[int, ...], tuple[int, ...]]]
    storages: Mapping[str, int]
    random: Tensor


def together(cases: Mapping[str, Case]) -> Case:
    """One model that runs all cases; its arguments and results are dictionaries by the cases' names."""

    def function(args: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        return {name: case.function(*args[name]) for name, case in cases.items()}

    return Case(function, ({name: case.args for name, case in cases.items()},))


def _leaves(what: str, tree: Any) -> dict[str, Any]:
    return {what + pytree.keystr(path): leaf for path, leaf in pytree.tree_flatten_with_path(tree)[0]}


def _strided(what: str, tree: Any) -> dict[str, Tensor]:
    leaves = _leaves(what, tree).items()
    return {name: x for name, x in leaves if isinstance(x, Tensor) and x.layout is torch.strided}


def copy_args(tree: Any) -> Any:
    """Copies of all tensors with their offsets and strides; those that share a storage share the copy's."""
    storages: dict[int, Any] = {}

    def copy(tensor: Tensor) -> Tensor:
        if tensor.layout is not torch.strided:
            return tensor.detach().clone()
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = storage.clone()  # type: ignore[no-untyped-call]  # torch's
        with torch.no_grad():
            bare = torch.empty(0, dtype=tensor.dtype)
            bare.set_(storages[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride())
        return bare.requires_grad_(tensor.requires_grad)

    return pytree.tree_map_only(Tensor, copy, tree)


def observe(run: Run, args: Sequence[Any], *, seed: int = 3) -> Seen:
    """Calls on copies of the arguments, from a fixed random state, without gradients."""
    mine = copy_args(tuple(args))
    torch.manual_seed(seed)
    with torch.no_grad():
        results = run(*mine)
    random = torch.get_rng_state()
    before = _strided("argument", mine)
    tensors = {**before, **_strided("result", results)}
    first: dict[int, str] = {}
    return Seen(
        results=results,
        args=mine,
        sharing={n: first.setdefault(t.untyped_storage()._cdata, n) for n, t in tensors.items()},
        windows={n: _window(t) for n, t in tensors.items()},
        storages={n: t.untyped_storage().nbytes() for n, t in before.items()},
        random=random,
    )


def _window(tensor: Tensor) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Offset, sizes and strides, as far as they mean anything."""
    sizes = tuple(tensor.size())
    if tensor.numel() == 0:
        return int(tensor.storage_offset()), sizes, ()
    strides = tuple(0 if n == 1 else s for n, s in zip(sizes, tensor.stride(), strict=True))
    return int(tensor.storage_offset()), sizes, strides


def assert_same(got: Seen, want: Seen, *, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Equal in everything; floating-point elements within tolerance."""
    for what, a, b in (("argument", got.args, want.args), ("result", got.results, want.results)):
        mine, theirs = _leaves(what, a), _leaves(what, b)
        assert mine.keys() == theirs.keys()
        for name, leaf in theirs.items():
            _same_leaf(name, mine[name], leaf, rtol, atol)
    assert got.sharing == want.sharing
    assert got.storages == want.storages
    assert got.windows == want.windows
    assert torch.equal(got.random, want.random), "random state"


def _same_leaf(name: str, got: Any, want: Any, rtol: float, atol: float) -> None:
    if not isinstance(want, Tensor):
        assert type(got) is type(want), name
        assert got == want, name
        return
    assert isinstance(got, Tensor), name
    if want.layout is torch.strided and want.untyped_storage().nbytes() < _extent(want):
        assert got.size() == want.size(), name  # its storage was resized: there are no elements
        return
    message = partial("{}: {}".format, name)
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True, msg=message)


def _extent(tensor: Tensor) -> int:
    """Bytes from the start of the storage to behind the last element."""
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    return (int(tensor.storage_offset()) + last + 1) * tensor.element_size()


def check_forms(artifact: Artifact) -> None:
    """The program is valid, and its text and JSON forms round-trip."""
    wrapper_ir.verify(artifact.program)
    text = wrapper_ir.print_program(artifact.program)
    assert wrapper_ir.parse_program(text) == artifact.program
    assert wrapper_ir.from_json(wrapper_ir.to_json(artifact.program)) == artifact.program


def captured_paths(artifact: Artifact) -> dict[str, Run]:
    """The two ways to run an artifact: interpreted, with poisoned memory, and as emitted Python."""
    torch_machine, options = machine("torch"), InterpOptions(poison=_POISON, operators=ALL_OPERATORS)
    python = emitter("python")
    assert isinstance(python, OperatorEmitter)
    return {
        "interpreter": lambda *args: call(artifact, torch_machine, args, {}, options),
        "python": python.with_operators(ALL_OPERATORS).compile(artifact),
    }


def stock(function: Run, **options: Any) -> Run:
    """Inductor's own compiler."""
    torch._dynamo.reset()
    compiled: Run = torch.compile(function, **options)
    return compiled


def check_all_paths(
    case: Case, *, want: Run | None = None, calls: int = 2, tolerances: Mapping[str, float] | None = None
) -> Artifact:
    """Checks that a function has the effects of `want` (default: itself) on each call, captured (interpreter,
    emitted Python) and compiled by the backend; returns the captured artifact."""
    function, args = case.function, case.args
    expected = observe(function if want is None else want, args)
    artifact = capture(function, copy_args(args))
    check_forms(artifact)
    torch._dynamo.reset()
    runs = {**captured_paths(artifact), "backend": torch.compile(function, backend="wrapper_ir")}
    for name, run in runs.items():
        for number in range(calls):
            try:
                assert_same(observe(run, args), expected, **(tolerances or {}))
            except AssertionError as error:
                raise AssertionError(f"{name}, call {number}: {error}") from error
    return artifact


def main_text(program: ir.Program) -> str:
    """The text of `main` alone, without provenance."""
    text = wrapper_ir.print_program(program)
    lines = text[text.index("func @main") :].splitlines()
    body = lines[: lines.index("}") + 1]
    return "\n".join(line.split("  #")[0] for line in body) + "\n"
