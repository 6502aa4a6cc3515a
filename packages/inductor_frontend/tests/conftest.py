"""Runs captured artifacts: through the interpreter, and through the installed Python emitter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir_runtime.interp import call

Check = Callable[..., None]


def _copy(tree: Any) -> Any:  # Any: nested arguments
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), tree)


def _same(got: Any, want: Any) -> None:  # Any: nested results
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    assert got_spec == want_spec
    for a, b in zip(got_leaves, want_leaves, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        else:
            assert a == b


@pytest.fixture
def equals_eager() -> Check:
    """Returns `check(artifact, function, *args, **kwargs)`, which compares results and argument mutations of
    the interpreter and emitted Python with those of `function`."""

    def check(artifact: Artifact, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        compiled = emitter("python").compile(artifact)
        runs: list[Callable[..., Any]] = [lambda *a, **k: call(artifact, machine("torch"), a, k), compiled]
        for run in runs:
            mine, theirs = _copy((args, kwargs)), _copy((args, kwargs))
            with torch.no_grad():
                want = function(*theirs[0], **theirs[1])
            _same(run(*mine[0], **mine[1]), want)
            _same(mine, theirs)

    return check


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
