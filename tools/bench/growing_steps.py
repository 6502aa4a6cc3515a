"""Steps that are measured on the families of `growing_programs`: each takes a valid program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from py_wrapper import emit
from wrapper_ir import check, from_json, ir, parse_program, print_program, to_json
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir_lowering import lower, print_plan
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_passes.translation import compare
from wrapper_ir_tools.diff import diff_programs
from wrapper_ir_tools.explain import explain_program
from wrapper_ir_tools.report import memory_report

_LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)


def artifact_of(program: ir.Program) -> Artifact:
    """An artifact of a program whose constants have no data: it takes `main`'s parameters and returns a tuple of its results."""
    returned, count = program.main.body[-1], len(program.main.params)
    assert isinstance(returned, ir.Return)  # the program is valid
    args = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(_LEAF,) * count)
    inputs = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(args, ir.TreeSpec(kind=ir.TreeKind.DICT)))
    outputs = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(_LEAF,) * len(returned.values))
    bindings = tuple(ir.ResultOutput(index=at) for at in range(len(returned.values)))
    written = Analyses(program).summary(program.main.name).written_params
    signature = ir.Signature(
        inputs=inputs,
        params=tuple(range(count)),
        outputs=outputs,
        bindings=bindings,
        written=tuple(sorted(written)),
    )
    return Artifact(program=program, constants={}, signature=signature)


STEPS: Mapping[str, Callable[[ir.Program], object]] = MappingProxyType(
    {
        "text": lambda program: parse_program(print_program(program)),
        "JSON": lambda program: from_json(to_json(program)),
        "verify": check,
        "derive-frees": derive_frees,
        "stats": program_stats,
        "memory": memory_report,
        "plan-memory": PlanMemory().run,
        "compare": lambda program: compare(program, program),
        "diff": lambda program: diff_programs(program, program),
        "explain": lambda program: explain_program(artifact_of(program)),
        "lower": lambda program: print_plan(lower(artifact_of(program))),
        "emit": lambda program: emit(artifact_of(program)),
    }
)
"""By name. "text" and "JSON" write a program and read it again."""
COUNTS_BYTES = frozenset({"stats", "memory", "plan-memory"})
"""Steps that count bytes under the hints of symbols."""
