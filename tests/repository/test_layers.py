"""Modules loaded by imports: the core loads no tensor library, and no package loads its siblings.

import-linter (`make layers`) reads the import statements; these tests inspect the modules of a fresh
interpreter.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
import torch._dynamo

FREE_OF_TORCH = (
    "wrapper_ir",
    "wrapper_ir_passes",
    "wrapper_ir_lowering",
    "wrapper_ir_runtime",
    "wrapper_ir_tools",
)
SIBLINGS = frozenset({"inductor_frontend", "py_wrapper", "cpp_wrapper", "fx_converter", "triton_runtime"})
HEAVY = frozenset({"torch", "triton", "sympy", "numpy", "click", "functorch", "jax"})

# Required results of each entry point, by group and name.
ENTRY_POINTS = [
    ("wrapper_ir.frontends", "inductor", "inductor_frontend"),
    ("wrapper_ir.emitters", "python", "py_wrapper"),
    ("wrapper_ir.emitters", "fx", "fx_converter"),
    ("wrapper_ir.emitters", "cpp", "cpp_wrapper"),
    ("wrapper_ir.kernel_runtimes", "cpp", "cpp_wrapper"),
    ("wrapper_ir.kernel_runtimes", "triton", "triton_runtime"),
    ("wrapper_ir.machines", "torch", "py_wrapper"),
    ("torch_dynamo_backends", "wrapper_ir", "inductor_frontend"),
]


def loaded_after(statement: str) -> frozenset[str]:
    """Top-level modules in `sys.modules` of a fresh interpreter after `statement`."""
    code = (
        f"import sys, json\n{statement}\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


def submodules(package: str) -> list[str]:
    """Every importable module of `package`, found without importing more than the package itself."""
    code = (
        f"import pkgutil, {package} as p\n"
        f"def walk(path, prefix):\n"
        f"    for m in pkgutil.iter_modules(path, prefix):\n"
        f"        print(m.name)\n"
        f"        if m.ispkg: walk([m.module_finder.path + '/' + m.name.rpartition('.')[2]], m.name + '.')\n"
        f"walk(p.__path__, '{package}.')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_core_loads_no_tensor_library() -> None:
    assert loaded_after("import wrapper_ir") & (HEAVY | SIBLINGS) == frozenset()


def test_no_module_of_the_core_loads_a_tensor_library() -> None:
    """Every module, the CLI's too, which may load click.

    Sympy comes in when something is solved, not before.
    """
    modules = [name for package in FREE_OF_TORCH for name in submodules(package)]
    assert len(modules) > 200
    imports = "\n".join(f"import {name}" for name in modules if not name.endswith("__main__"))
    assert loaded_after(imports) & ((HEAVY | SIBLINGS) - {"click"}) == frozenset()


def test_what_emitters_share_of_torch_loads_none_of_them() -> None:
    loaded = loaded_after("import wrapper_ir_torch")
    assert "torch" in loaded
    assert loaded & SIBLINGS == frozenset()


@pytest.mark.slow
def test_packages_do_not_load_their_siblings() -> None:
    """Each runs in a copy of one process that has loaded torch, which is most of the cost of an import."""
    names = sorted(SIBLINGS)
    code = (
        "import importlib, json, os, sys, torch\n"
        f"for name in {names!r}:\n"
        "    if (child := os.fork()) == 0:\n"
        "        importlib.import_module(name)\n"
        "        print(json.dumps([name, sorted({m.split('.')[0] for m in sys.modules})]), flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name: frozenset(modules) for name, modules in map(json.loads, done.stdout.splitlines())}
    assert sorted(loaded) == names, done.stderr
    assert {name: found & SIBLINGS for name, found in loaded.items()} == {name: {name} for name in names}


@pytest.mark.parametrize(("group", "name", "package"), ENTRY_POINTS)
def test_entry_points_load(group: str, name: str, package: str) -> None:
    found = [point for point in entry_points(group=group, name=name) if point.module.split(".")[0] == package]
    assert len(found) == 1
    loaded = found[0].load()
    if group == "torch_dynamo_backends":  # it registers the backend itself, under a lock, and returns None
        assert name in torch._dynamo.list_backends()
    else:
        assert loaded is not None
