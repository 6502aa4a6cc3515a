"""Damaged signatures of captured models: every engine refuses them with a code, or all accept them alike."""

from __future__ import annotations

import dataclasses
import enum
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fx_converter
import inductor_frontend
import py_wrapper
import tests.signature.signature_cases  # noqa: F401  # adds its cases to the list
from py_wrapper import TORCH_MACHINE, PyOptions
from tests.signature.signature_case import CASES
from wrapper_ir import check, ir, load, save
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import VerificationError, WirError
from wrapper_ir.json.signature import signature_from_json, signature_to_json
from wrapper_ir_runtime.interp import Interpreter

# Any in this file: parts of signatures, arguments and results
NAMES = sorted(CASES)[::7]
WRONG = (-1, -7, 0, 1, 2, 5, 99, 10**30, True, False, 1.0, None, "1", "", (), (0,), [0], b"0")
Path_ = tuple[str | int, ...]


@cache
def captured(name: str) -> Artifact | None:
    case = CASES[name]
    args, kwargs = case.make()
    try:
        return inductor_frontend.capture(case.model(), args, kwargs)
    except WirError:
        return None  # other tests cover models that cannot be exported


def places(x: Any, path: Path_ = ()) -> Iterator[Path_]:
    """All fields and items of a signature."""
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        for field in dataclasses.fields(x):
            yield (*path, field.name)
            yield from places(getattr(x, field.name), (*path, field.name))
    elif isinstance(x, tuple):
        for number, item in enumerate(x):
            yield (*path, number)
            yield from places(item, (*path, number))


def edited(x: Any, path: Path_, edit: Callable[[Any], Any]) -> Any:
    """The same with one part changed."""
    if not path:
        return edit(x)
    head, rest = path[0], path[1:]
    if isinstance(head, str):
        return dataclasses.replace(x, **{head: edited(getattr(x, head), rest, edit)})
    return (*x[:head], edited(x[head], rest, edit), *x[head + 1 :])


def damage(rng: random.Random) -> Callable[[Any], Any]:
    """Edits one part: another number, another type, items removed, repeated or reordered."""

    def edit(x: Any) -> Any:
        if isinstance(x, tuple) and x and rng.random() < 0.7:
            kind = rng.randrange(4)
            items = [x[:-1], (*x, x[-1]), x[::-1], (*x, rng.choice(x))]
            return items[kind]
        if isinstance(x, enum.Enum) and rng.random() < 0.7:
            return rng.choice(list(type(x)))
        if type(x) is int and rng.random() < 0.5:
            return x + rng.choice((-1, 1, 2))
        return rng.choice(WRONG)

    return edit


def outcome(make: Callable[[], Callable[..., Any]], name: str) -> Any:
    """Returns the results of a call, or the code of its error.

    Any other exception is a failure of the test.
    """
    args, kwargs = CASES[name].make()
    try:
        found = make()(*args, **kwargs)
    except WirError as error:
        return error.code
    except TypeError as error:
        # A valid signature of other parameters: Python's own refusal of a call that does not fit them.
        assert str(error).startswith("forward() ")
        return str(error)
    return list(leaves(found))


def leaves(x: Any) -> Iterator[Any]:
    """Tensors, and everything else that is not a container of any class."""
    inner = (
        x.values()
        if isinstance(x, dict)
        else x
        if isinstance(x, list | tuple)
        else getattr(x, "__dict__", None)
    )
    if isinstance(x, torch.Tensor) or inner is None:
        yield x
        return
    for item in inner.values() if isinstance(inner, dict) else inner:
        yield from leaves(item)


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    return len(a) == len(b) and all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) else x == y
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**9))
def test_damaged_signatures(name: str, seed: int) -> None:
    artifact = captured(name)
    if artifact is None:
        pytest.skip("the model cannot be exported")
    rng = random.Random(seed)
    signature = edited(artifact.signature, rng.choice(list(places(artifact.signature))), damage(rng))
    damaged = dataclasses.replace(artifact, signature=signature)
    found = check(damaged)
    makers: list[Callable[[], Callable[..., Any]]] = [
        lambda: Interpreter(damaged, TORCH_MACHINE),
        lambda: py_wrapper.compile(damaged, PyOptions()),
        lambda: fx_converter.convert(damaged),
    ]
    if found:
        for make in makers:
            with pytest.raises(VerificationError) as caught:
                make()(*CASES[name].make()[0], **CASES[name].make()[1])
            assert caught.value.diagnostics == found
    else:
        want, *others = (outcome(make, name) for make in makers)
        assert all(alike(want, other) for other in others), (want, others)


def numbers(x: Any, path: Path_ = ()) -> Iterator[Path_]:
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, item in items:
        if type(item) is int:
            yield (*path, key)
        yield from numbers(item, (*path, key))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**9))
def test_damaged_files(name: str, seed: int) -> None:
    """Reading returns a signature, whose numbers are ints, or raises an error with a code."""
    artifact = captured(name)
    if artifact is None:
        pytest.skip("the model cannot be exported")
    rng = random.Random(seed)
    tree = json.loads(signature_to_json(artifact.signature))
    path = rng.choice(list(numbers(tree)))
    inner = tree
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = rng.choice([w for w in WRONG if not isinstance(w, bytes)])
    try:
        signature = signature_from_json(json.dumps(tree))
    except WirError:
        return
    assert "WIR117" not in {d.code for d in check(dataclasses.replace(artifact, signature=signature))}


def test_loading_does_not_verify_and_compiling_does(tmp_path: Path) -> None:
    name = "plain"
    artifact = captured(name)
    assert artifact is not None
    signature: ir.Signature = dataclasses.replace(artifact.signature, params=(7,))
    save(dataclasses.replace(artifact, signature=signature), tmp_path / "m.wir")
    loaded = load(tmp_path / "m.wir")
    for make in (py_wrapper.compile, fx_converter.convert):
        with pytest.raises(VerificationError, match="WIR103"):
            make(loaded)
