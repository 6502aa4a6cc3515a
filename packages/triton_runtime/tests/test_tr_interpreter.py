"""Triton's interpreter runs kernels on CPU tensors like devices, and restores everything."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from packages.triton_runtime.tests.conftest import Load
from packages.triton_runtime.tests.triton_texts import (
    ADD,
    ADD_CLAUSES,
    ADD_PARAMS,
    add_kernel,
    bound,
    kernel_of,
    launchable,
)

from triton_runtime import Driver, KernelError, LaunchError
from triton_runtime.fake import FakeDriver
from triton_runtime.interp import InterpreterDriver
from wrapper_ir import ir


# Any: modules and classes of Triton
def language() -> list[tuple[Any, dict[str, Any]]]:
    """The state of Triton that a kernel can see."""
    from triton.language.extra import libdevice as generic
    from triton.language.extra.cuda import libdevice as cuda
    from triton.runtime.interpreter import interpreter_builder
    from triton.runtime.jit import JITFunction

    namespaces = (
        tl,
        tl.core,
        tl.math,
        tl.standard,
        tl.tensor,
        tl.dtype,
        tl.core.tensor_descriptor_base,
        generic,
        cuda,
    )
    return [(thing, dict(vars(thing))) for thing in (*namespaces, JITFunction)] + [
        (
            interpreter_builder,
            {k: v for k, v in vars(interpreter_builder).items() if not k.startswith("grid_")},
        )
    ]


def test_it_runs_and_puts_everything_back(load: Load) -> None:
    kernel = load(add_kernel())
    x, y, out = torch.randn(1000), torch.randn(1000), torch.full((1001,), 7.0)
    before, environment, errors = language(), dict(os.environ), np.geterr()
    kernel(x, y, out[:1000], 1000)
    assert torch.equal(out[:1000], x + y)
    assert out[1000] == 7.0
    for (thing, names), (_, after) in zip(before, language(), strict=True):
        assert names == after, thing
    assert dict(os.environ) == environment
    assert np.geterr() == errors
    assert not triton.knobs.runtime.interpret


@pytest.mark.parametrize("config", [0, 1])
def test_every_config_computes_the_same(load: Load, config: int) -> None:
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    load(add_kernel(), config)(x, y, out, 300)
    assert torch.equal(out, x + y)


def test_an_empty_grid_runs_nothing(load: Load) -> None:
    out = torch.ones(4)
    load(add_kernel())(torch.zeros(4), torch.zeros(4), out, 0)
    assert torch.equal(out, torch.ones(4))


def test_a_failing_kernel_names_its_line_and_the_next_launch_works(load: Load) -> None:
    source = ADD.replace("x + y", "x + y.no_such_thing")
    before = language()
    broken = load(kernel_of(ADD_PARAMS, ADD_CLAUSES, source, entry="add", name="broken"))
    args = torch.ones(8), torch.ones(8), torch.zeros(8), 8
    with pytest.raises(LaunchError, match=r"'broken' failed .*, line 10: tl.store\(out_ptr") as caught:
        broken(*args)
    assert caught.value.code == "TR304"
    for (thing, names), (_, after) in zip(before, language(), strict=True):
        assert names == after, thing
    load(add_kernel())(*args)
    assert torch.equal(args[2], torch.full((8,), 2.0))


def test_threads_take_turns(load: Load) -> None:
    kernel = load(add_kernel())
    results = [torch.zeros(2000) for _ in range(4)]
    ones = torch.ones(2000)
    threads = [
        threading.Thread(target=kernel, args=(ones, ones * i, out, 2000)) for i, out in enumerate(results)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, out in enumerate(results):
        assert torch.equal(out, ones * (1 + i))


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (lambda x, n: (x, x, x), "TR301", "takes 4 arguments, not 3"),
        (lambda x, n: (x, x.double(), x, n), "TR302", "'y_ptr' is of torch.float64, not torch.float32"),
        (lambda x, n: (x, x.to("meta"), x, n), "TR302", "'y_ptr' is on meta, not on cpu"),
        (lambda x, n: (x, 5, x, n), "TR302", "'y_ptr' is a int, not a tensor"),
        (lambda x, n: (x, x[1:], x, n), "TR302", "not a multiple of 16"),
        (lambda x, n: (x, x, x, 1.5), "TR303", "'n' is 1.5, not of i32"),
        (lambda x, n: (x, x, x, 2**31), "TR303", "not of i32"),
    ],
)
def test_arguments_that_do_not_fit(
    load: Load, args: Callable[..., tuple[object, ...]], code: str, message: str
) -> None:
    x = torch.zeros(8)
    with pytest.raises(LaunchError, match=message) as caught:
        load(add_kernel())(*args(x, 8))
    assert caught.value.code == code
    assert isinstance(caught.value, TypeError)


def test_other_devices_and_other_functions_are_refused(tmp_path: Path) -> None:
    driver = InterpreterDriver(folder=tmp_path)
    with pytest.raises(KernelError) as caught:
        driver.load(launchable(add_kernel()), ir.Device("cuda", 0))
    assert caught.value.code == "TR107"
    swapped = ADD_CLAUSES.replace("x_ptr, y_ptr", "y_ptr, x_ptr")
    with pytest.raises(KernelError, match="the definition says") as caught:
        driver.load(launchable(kernel_of(ADD_PARAMS, swapped, ADD, entry="add")), ir.CPU)
    assert caught.value.code == "TR102"


def test_the_fake_driver_records() -> None:
    driver = FakeDriver()
    assert isinstance(driver.name, str)
    typed: Driver = driver
    kernel = bound(
        "read f32* x, i32 n",
        "order(x, n, B)\n  configs({B = 4} warps(1) stages(1))\n  grid(ceildiv(n, B), g) over(g)",
    )
    loaded = typed.load(launchable(kernel), ir.Device("cuda", 3))
    x = torch.zeros(2)
    loaded(x, 9, 5)
    [launch] = driver.launches
    assert (launch.kernel, launch.config, launch.grid) == (kernel, kernel.configs[0], (3, 5, 1))
    assert launch.args[0] is x
    assert launch.args[1:] == (9, 5)


def test_the_interpreter_needs_no_torch() -> None:
    """It uses only addresses and type names of tensors."""
    import subprocess

    code = "import triton_runtime.interp, triton_runtime.fake, triton, sys; print('torch' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "False"


def test_the_compiler_has_its_own_builtins_after_an_interpretation() -> None:
    """Importing Triton's code generator during an interpretation would bind the interpreter's `min`
    permanently.
    """
    import subprocess

    code = """
from triton_runtime.interp.rewrite import Rewriter
from triton_runtime.interp.world import interpreting

with interpreting(Rewriter()):
    from triton.compiler.code_generator import CodeGenerator
from triton.language import core

print(CodeGenerator.builtin_namespace["min"] is core.builtin_min)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "True"
