"""Programs with fewer results, or without the contents of constants."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir_tools.debugger.minify.stubs import rebuilt


def label(arg: ir.Arg) -> str:
    """The name of a result, or its text. Two programs that shrink alike have the same labels."""
    return f"%{arg.name}" if isinstance(arg, ir.Value) else str(arg)


def returning(artifact: Artifact, labels: Collection[str]) -> Artifact:
    """Returns the artifact with only these results."""
    main = artifact.program.main
    returned = main.returns
    values = tuple(v for v in returned.values if label(v) in labels)
    body = (*main.body[:-1], ir.Return(values=values, prov=returned.prov))
    program = artifact.program.with_functions((main.with_body(body), *artifact.program.functions[1:]))
    return rebuilt(artifact, program, {})


def zeroed_content(artifact: Artifact, names: Collection[str]) -> Artifact:
    """Returns the artifact with zeros in these constants."""
    data = {
        n: TensorData(d.dtype, memoryview(bytes(d.nbytes))) if n in names else d
        for n, d in artifact.constants.items()
    }
    constants = tuple(
        replace(c, data_hash=data[c.data_name].sha256()) if c.data_hash else c
        for c in artifact.program.constants
    )
    return replace(artifact, program=replace(artifact.program, constants=constants), constants=data)
