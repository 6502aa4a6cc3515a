"""Reads the kernel that Inductor's backends are calling: its source and its scheduler nodes."""

from __future__ import annotations

import ast
import re
from contextlib import suppress

from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V

from inductor_frontend.errors import HookError
from wrapper_ir.support.python_syntax import parse_expression

_BODY = re.compile(r"async_compile\.cpp_pybinding\(\[.*?\], r'''\n(?P<source>.*?)'''\)\s*\Z", re.DOTALL)


def translation_unit(name: str, body: str) -> str:
    """Returns the C++ source inside the Python call that Inductor wraps around it; raises HookError FE201."""
    match = _BODY.match(body)
    if match is None:
        raise HookError("FE201", f"kernel {name} is not wrapped in cpp_pybinding: {body[:120]!r}")
    return match["source"]


def triton_module(name: str, body: str) -> str:
    """Returns the Python source inside the call that Inductor wraps around it.

    Raises HookError FE201, and FE202 for a kernel in another language.
    """
    with suppress(SyntaxError):
        match parse_expression(body.strip()):
            case ast.Call(
                func=ast.Attribute(value=ast.Name("async_compile"), attr="triton"),
                args=[_, ast.Constant(str(source))],
            ):
                return source
            case ast.Call(func=ast.Attribute(value=ast.Name("async_compile"), attr=language)):
                raise HookError(
                    "FE202",
                    f"kernel {name} is written in {language}: "
                    "kernels of a program are C++ for a CPU, or Triton",
                    hint=f"disable the option that selects {language}: a backend of matmuls in Inductor's "
                    "configuration, or the option BACKEND of flex_attention",
                )
            case _:
                pass
    raise HookError("FE201", f"kernel {name} is not wrapped in async_compile.triton: {body[:120]!r}")


def kernel_nodes() -> list[BaseSchedulerNode]:
    """Returns the scheduler nodes of the kernel being called: the pending group of the C++ backend, else the
    current node."""
    scheduler = V.graph.scheduler
    for backend in scheduler.backends.values():
        group = getattr(backend, "kernel_group", None)  # C++ scheduling, alone or inside a combined one
        if group is not None and group.scheduled_nodes:
            return list(group.scheduled_nodes)
    node = scheduler.current_node
    return [] if node is None else list(node.get_nodes())
