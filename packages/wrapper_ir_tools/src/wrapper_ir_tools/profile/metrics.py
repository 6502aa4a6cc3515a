"""Writes the tables of metrics of Inductor's `config.enabled_metric_tables` that apply to an artifact.

`kernel_metadata` has a row for each kernel. `graph_stats` has a row for each function, with source nodes
before fusion and calls after it. Inductor's other tables describe its scheduler's decisions (`slow_fusion`,
`fusion_failure_due_to_indexing_mismatch`) and measurements of kernels that it discarded
(`persistent_red_perf`, `kernel_autotune`; `wir tune` stores times in the artifact).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from wrapper_ir import ir
from wrapper_ir_tools.profile.result import Profile

_METADATA = (
    "kernel_name", "kernel_path", "kernel_category", "size_hints", "reduction_hint", "line_of_code",
    "num_load", "num_store", "num_for_loop", "num_atomic_add", "num_args", "xnumel", "ynumel", "rnumel",
    "kernel_args_num_gb",
)  # fmt: skip
_STATS = ("graph_id", "num_nodes_before_fusion", "num_nodes_after_fusion")
_CATEGORIES = {
    "triton_poi": "pointwise", "triton_red": "reduction", "triton_per": "persistent_reduction",
    "triton_for": "foreach", "triton_tem": "template",
}  # fmt: skip
Cell = str | int | float | None


def write_metric_tables(program: ir.Program, profile: Profile, folder: Path, model: str) -> tuple[Path, ...]:
    """Writes `metric_table_NAME.csv` files into the folder, creating it.

    The columns are Inductor's, beginning with `model_name`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "kernel_metadata": (_METADATA, [_metadata(k, profile, model) for k in program.kernels]),
        "graph_stats": (_STATS, _stats(program)),
    }
    return tuple(_write(folder, name, model, *table) for name, table in tables.items())


def _write(
    folder: Path, name: str, model: str, columns: tuple[str, ...], rows: Iterable[Mapping[str, Cell]]
) -> Path:
    path = folder / f"metric_table_{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("model_name", *columns))
        for row in rows:
            writer.writerow((model, *(_cell(row.get(column)) for column in columns)))
    return path


def _cell(value: Cell) -> str:
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def _metadata(kernel: ir.KernelDef, profile: Profile, model: str) -> dict[str, Cell]:
    code, load, store, add = "", "", "", ""
    match kernel:
        case ir.TritonKernel(source=source):
            code, load, store, add = source[source.find("def ") :], "tl.load", "tl.store", "tl.atomic_add"
        case ir.CppKernel(source=code):
            pass
        case _:
            pass
    moved = [op.bytes / op.count for op in profile.ops if op.name == kernel.name]
    return {
        "kernel_name": kernel.name,
        "kernel_path": f"{model}@{kernel.name}",
        "kernel_category": _CATEGORIES.get(kernel.name[:10], kernel.kind),
        "line_of_code": len(code.splitlines()) if code else None,
        "num_load": code.count(load) if load else None,
        "num_store": code.count(store) if store else None,
        "num_for_loop": len(re.findall(r"\bfor\b", code)) if code else None,
        "num_atomic_add": code.count(add) if add else None,
        "num_args": len(kernel.params),
        "xnumel": _numel(code, "xnumel"),
        "ynumel": _numel(code, "ynumel"),
        "rnumel": _numel(code, "r0_numel"),
        "kernel_args_num_gb": moved[0] / 1e9 if moved else None,
    }


def _numel(code: str, name: str) -> int | None:
    match = re.search(rf"\b{name} = (\d+)", code)
    return int(match[1]) if match else None


def _stats(program: ir.Program) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for number, function in enumerate(program.functions):
        calls = list(function.ops_of(ir.Launch, ir.CallExtern))
        nodes = {node for op in calls for node in op.prov.nodes}
        rows.append(
            {"graph_id": number, "num_nodes_before_fusion": len(nodes), "num_nodes_after_fusion": len(calls)}
        )
    return rows
