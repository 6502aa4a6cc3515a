"""Inductor's compiled callable as `torch.compile` calls it: on flat arguments, without guards."""

from __future__ import annotations

import unittest.mock as mock
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import compile_fx
from torch._inductor import config as inductor_config

from tests.common.zoo import Case

# Any: models and their arguments are their own
Boxed = Callable[[list[Any]], Any]


def last_call(run: Callable[[], object], owner: Any, name: str) -> tuple[Boxed, list[Any]]:
    """Returns the boxed callable that `owner.name(...)` created last, and the flat arguments that `run`
    passed to it.
    """
    calls: list[tuple[Boxed, list[Any]]] = []
    make = getattr(owner, name)  # the two compilers' own functions, by name

    def spy(*args: Any, **kwargs: Any) -> Boxed:
        compiled = make(*args, **kwargs)

        def boxed(flat: list[Any]) -> Any:
            calls.append((compiled, list(flat)))
            return compiled(flat)

        boxed._boxed_call = True  # type: ignore[attr-defined]  # how torch marks a boxed callable
        return boxed

    # a cached graph would be served without calling the compiler
    with mock.patch.object(owner, name, spy), inductor_config.patch(force_disable_caches=True):
        run()
    return calls[-1]


def inductor_call(case: Case) -> tuple[Boxed, list[Any]]:
    """Inductor's wrapper of a model, and its flat arguments: weights, then the call's tensors."""
    torch._dynamo.reset()

    def stock(graph: Any, inputs: Any) -> Any:  # looks the inner compiler up when it runs, under the spy
        return compile_fx.compile_fx(graph, inputs, inner_compile=compile_fx.compile_fx_inner)

    compiled = torch.compile(case.model, backend=stock)
    return last_call(lambda: compiled(*case.args, **(case.kwargs or {})), compile_fx, "compile_fx_inner")
