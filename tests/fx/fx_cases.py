"""Programs that become FX graphs, and their results in the interpreter."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from packages.py_wrapper.tests.py_case import Case, find_runtime
from packages.py_wrapper.tests.py_programs import CASES

from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from wrapper_ir.artifact import Artifact

every_case = pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])


BY_NAME = {c.name: c for c in CASES}


def options(form: KernelCalls, **more: Any) -> FxOptions:  # Any: fields of FxOptions
    return FxOptions(kernel_calls=form, find_runtime=find_runtime, **more)


def stored(artifact: Artifact) -> Artifact:
    """With the hashes that the text of the cases leaves out."""
    constants = tuple(
        dataclasses.replace(c, data_hash=artifact.constants[c.value.name].sha256())
        for c in artifact.program.constants
    )
    return dataclasses.replace(artifact, program=dataclasses.replace(artifact.program, constants=constants))


def wanted(case: Case) -> tuple[Any, ...]:
    return case.expected(*case.inputs())
