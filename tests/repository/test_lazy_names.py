"""Public names that packages load on first use."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import pytest

from wrapper_ir.support.lazy import homes

PACKAGES = [
    "fx_converter",
    "inductor_frontend",
    "triton_runtime",
    "wrapper_ir.json",
    "wrapper_ir.text",
    "wrapper_ir_lowering",
    "wrapper_ir_native",
    "wrapper_ir_passes",
    "wrapper_ir_runtime",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_the_one_of_its_module(name: str) -> None:
    package = import_module(name)
    home = homes(package._MODULES)
    assert set(home) == set(package.__all__)
    for public, module in home.items():
        path = module if module.startswith("wrapper_ir.") else f"{name}.{module}"
        assert getattr(package, public) is getattr(import_module(path), public)


def test_imports_load_what_they_need() -> None:
    program = (
        "import sys, json, fx_converter, inductor_frontend, triton_runtime, wrapper_ir_lowering, "
        "wrapper_ir_passes, wrapper_ir_runtime; print(json.dumps(sorted(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded: set[str] = set(json.loads(process.stdout))
    assert not loaded & {"torch", "sympy", "wrapper_ir.ir"}


def test_reading_parts_needs_no_parser() -> None:
    program = "import sys; from wrapper_ir_runtime import open_parts; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(process.stdout.split()) & {"wrapper_ir.json.program", "wrapper_ir.text.parser"}
