"""Files of graph modules, damaged on purpose."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

import wrapper_ir
from fx_converter.kernels import NAMESPACE

NAME = "fx_graph.json"


def tables() -> tuple[Any, ...]:
    """Returns the kernels in torch's own tables."""
    names = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith(NAMESPACE)}
    return names, dict(kernel_side_table.id_to_kernel), dict(kernel_side_table.constant_args)


def rewritten(path: Path, to: Path, text: str) -> Path:
    """The file with another text of its graph, sealed again."""
    found = wrapper_ir.load(path)
    wrapper_ir.save(dataclasses.replace(found, extensions={NAME: text}), to)
    return to


def text_of(path: Path) -> str:
    return wrapper_ir.load(path).extensions[NAME]


def other_main(said: Any) -> None:
    said["main"] = len(said["graphs"]) - 2


def no_output(said: Any) -> None:
    said["graphs"][-1]["nodes"].pop()
