"""The zoo's models, captured once a process."""

from __future__ import annotations

import functools
from typing import Any

import inductor_frontend
from tests.common.zoo import ZOO, Case
from wrapper_ir.artifact import Artifact


@functools.lru_cache(maxsize=4)
def case_of(name: str) -> Case:
    return ZOO[name]()


@functools.lru_cache(maxsize=4)
def artifact_of(name: str, dynamic: bool) -> Artifact:
    case = case_of(name)
    shapes = case.dynamic if dynamic else None
    return inductor_frontend.capture(case.model, case.args, case.kwargs, dynamic_shapes=shapes)


def calls_of(case: Case, dynamic: bool) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    calls = [(case.args, dict(case.kwargs or {}))]
    if dynamic:
        assert case.other is not None
        calls.append((case.other[0], dict(case.other[1])))
    return calls
