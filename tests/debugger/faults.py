"""Ten faults, each planted in the program of a captured model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.expr import Int

Plant = Callable[[Artifact], Artifact]
Body = tuple[ir.Op, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: its description, the model (of `fault_models`.

    `mlp_gpu` is captured for a GPU), how to plant it, and the commands that find it (`bad.wir` is the
    program). The output of the last command must match regular expressions. `SUBJECT` in both is the value
    that `subject` finds in the good program: torch's versions number buffers differently.
    """

    name: str
    model: str
    plant: Plant
    commands: tuple[str, ...]
    found: tuple[str, ...]
    subject: Callable[[Artifact], str] = lambda artifact: ""

    def commands_for(self, good: Artifact) -> tuple[str, ...]:
        """The commands for a program that `good` was."""
        return tuple(text.replace("SUBJECT", self.subject(good)) for text in self.commands)

    def found_in(self, good: Artifact) -> tuple[re.Pattern[str], ...]:
        """Returns the expected output of the last command for the program `good`."""
        return tuple(re.compile(text.replace("SUBJECT", self.subject(good))) for text in self.found)


def _with_body(artifact: Artifact, body: Body) -> Artifact:
    program = artifact.program
    main = program.main.with_body(body)
    return replace(artifact, program=program.with_functions((main, *program.functions[1:])))


def _where(artifact: Artifact, wanted: Callable[[ir.Op], bool]) -> list[int]:
    return [i for i, op in enumerate(artifact.program.main.body) if wanted(op)]


def _changed(artifact: Artifact, position: int, *new: ir.Op) -> Artifact:
    body = artifact.program.main.body
    return _with_body(artifact, (*body[:position], *new, *body[position + 1 :]))


def _kernel_text(artifact: Artifact, name: str, old: str, new: str) -> Artifact:
    """Replaces text in the source of the first kernel whose name has `name` in it."""
    program = artifact.program
    wanted = next(k for k in program.kernels if name in k.name)
    assert isinstance(wanted, ir.CppKernel)
    assert old in wanted.source
    changed = replace(wanted, source=wanted.source.replace(old, new))
    kernels = tuple(changed if k is wanted else k for k in program.kernels)
    return replace(artifact, program=replace(program, kernels=kernels))


def kernel_constant(artifact: Artifact) -> Artifact:
    """GELU with 0.44715 in place of 0.044715."""
    return _kernel_text(artifact, "tanh", "0.044715", "0.44715")


def reduction_size(artifact: Artifact) -> Artifact:
    """The variance of layer norm divided by 16 elements, not 32."""
    return _kernel_text(artifact, "native_layer_norm", "static_cast<float>(32.0)", "static_cast<float>(16.0)")


def missing_copy(artifact: Artifact) -> Artifact:
    """The kernel that joins the states of both directions is not launched."""
    (position,) = _where(
        artifact, lambda op: isinstance(op, ir.Launch) and op.kernel.startswith("cpp_fused_cat_")
    )[:1]
    return _changed(artifact, position)


def nan_in_third_layer(artifact: Artifact) -> Artifact:
    """The third activation is a logarithm, also of what is negative."""
    position = _where(artifact, lambda op: isinstance(op, ir.Launch))[2]
    op = artifact.program.main.body[position]
    log = ir.ExternDef(schema="aten::log_(Tensor(a!) self) -> Tensor(a!)")
    changed = _changed(artifact, position, ir.CallExtern(target=log.name, args=op.args, prov=op.prov))  # type: ignore[union-attr]  # a launch
    return replace(changed, program=replace(changed.program, externs=(*changed.program.externs, log)))


def wrong_stride(artifact: Artifact) -> Artifact:
    """The second layer's weight is not transposed."""
    old, position = next(
        (op.result, i)
        for i, op in enumerate(artifact.program.main.body)
        if isinstance(op, ir.View) and op.result.name == "2.weight.v"
    )
    op = artifact.program.main.body[position]
    assert isinstance(op, ir.View)
    new = ir.Value(old.name, replace(old.type, strides=(Int(64), Int(1))))
    return _renamed(_changed(artifact, position, replace(op, result=new)), old, new)


def _renamed(artifact: Artifact, old: ir.Value[ir.TensorType], new: ir.Value[ir.TensorType]) -> Artifact:

    body = artifact.program.main.body
    return _with_body(artifact, tuple(ir.map_values(op, lambda v: new if v == old else v) for op in body))


def race(artifact: Artifact) -> Artifact:
    """The second matmul runs on another stream without synchronisation."""
    position = _where(artifact, lambda op: isinstance(op, ir.CallExtern))[1]
    op = artifact.program.main.body[position]
    assert isinstance(op, ir.CallExtern)
    return _changed(artifact, position, replace(op, stream=1))


def _second_layer_norm(artifact: Artifact) -> tuple[str, str]:
    """Names of the sum that it reads, which the residual connection needs later, and of its result."""
    launches = [op for op in artifact.program.main.body if isinstance(op, ir.Launch)]
    norm = [op for op in launches if "native_layer_norm" in op.kernel][1]
    elements = [
        (arg.name, ir.numel(arg.type.sizes))
        for arg in norm.args
        if isinstance(arg, ir.Value) and isinstance(arg.type, ir.TensorType)
    ]
    result, number = elements[-1]
    return next(name for name, of_it in elements if of_it == number), result


def bad_in_place(artifact: Artifact) -> Artifact:
    """Layer norm writes over the sum that the residual connection needs later."""
    body = list(artifact.program.main.body)
    read, written = _second_layer_norm(artifact)
    view = next(i for i, op in enumerate(body) if isinstance(op, ir.View) and op.result.name == written)
    storage = next(
        op.result for op in body if isinstance(op, ir.AllocStorage) and op.result.name == f"{written}.s"
    )
    source = next(op.result for op in body if isinstance(op, ir.View) and op.result.name == read)
    old = body[view]
    assert isinstance(old, ir.View)
    body[view] = replace(old, source=source)
    ended = [
        op
        for op in body
        if not (isinstance(op, ir.AllocStorage) and op.result == storage)
        and not (isinstance(op, ir.Free) and op.storage == storage)
    ]
    return _with_body(artifact, tuple(ended))


def wrong_dtype(artifact: Artifact) -> Artifact:
    """A sum of positions in 32 bits, which kernels read as 64."""
    (position,) = _where(artifact, lambda op: isinstance(op, ir.CallExtern) and op.target == "aten::cumsum")
    op = artifact.program.main.body[position]
    assert isinstance(op, ir.CallExtern)
    kwargs = tuple((k, ir.DType.I32 if k == "dtype" else v) for k, v in op.kwargs)
    return _changed(artifact, position, replace(op, kwargs=kwargs))


def stale_constant(artifact: Artifact) -> Artifact:
    """A bias from before the last training step."""
    name = "2.bias"
    data = artifact.constants[name]
    raw = bytearray(data.buffer.cast("B"))
    raw[3] ^= 0x80  # the sign of the first element
    stale = TensorData(data.dtype, memoryview(bytes(raw)))
    constants = tuple(
        replace(c, data_hash=stale.sha256()) if c.value.name == name else c
        for c in artifact.program.constants
    )
    program = replace(artifact.program, constants=constants)
    return replace(artifact, program=program, constants={**artifact.constants, name: stale})


def swapped_arguments(artifact: Artifact) -> Artifact:
    """Attention swaps keys and queries."""
    position = _where(
        artifact, lambda op: isinstance(op, ir.CallExtern) and "scaled_dot_product" in op.target
    )[1]
    op = artifact.program.main.body[position]
    assert isinstance(op, ir.CallExtern)
    query, key, *rest = op.args
    return _changed(artifact, position, replace(op, args=(key, query, *rest)))


EAGER = "wir compare bad.wir --with eager"
FAULTS = (
    Fault(
        "a wrong kernel constant",
        "gpt2",
        kernel_constant,
        (EAGER,),
        ("launch @cpp_fused_add_mul_pow_tanh_view_", "nodes mul_"),
    ),
    Fault(
        "a missing copy",
        "lstm",
        missing_copy,
        ("wir compare good.wir bad.wir",),
        ("only the first computed %buf14, by op",),
    ),
    Fault(
        "NaN in the third layer",
        "mlp",
        nan_in_third_layer,
        ("wir hunt bad.wir",),
        (r"call aten::log_\(%buf5\)", "nodes relu_2"),
    ),
    Fault(
        "a wrong stride",
        "mlp",
        wrong_stride,
        (EAGER,),
        (r"call aten::addmm.out\(%2.bias, %buf1, %2.weight.v", "module 2"),
    ),
    Fault(
        "a race between streams",
        "mlp_gpu",
        race,
        ("wir verify bad.wir",),
        (r"\[WIR045\]", "%buf1 is still used on stream 0 of cuda:0"),
    ),
    Fault(
        "a bad in-place",
        "gpt2",
        bad_in_place,
        (
            EAGER,
            "wir step bad.wir --batch -c 'break %SUBJECT' -c continue -c next -c 'watch %SUBJECT' -c continue -c 'back' -c print",
        ),
        (
            "%SUBJECT has changed",
            "launch @cpp_fused_add_(arange_)?embedding_native_layer_norm_unsqueeze_view_",
        ),
        lambda good: _second_layer_norm(good)[0],
    ),
    Fault(
        "a wrong reduction size",
        "gpt2",
        reduction_size,
        (EAGER,),
        ("native_layer_norm", "launch @cpp_fused_add_(arange_)?embedding_native_layer_norm_"),
    ),
    Fault(
        "a wrong dtype",
        "gpt2",
        wrong_dtype,
        (EAGER,),
        (r"\[WIR927\] %buf\d is declared as i64, but its elements are i32", "call aten::cumsum"),
    ),
    Fault(
        "a stale constant",
        "mlp",
        stale_constant,
        (EAGER,),
        (r"constant %2\.bias differs from the model's 2\.bias",),
    ),
    Fault(
        "swapped arguments",
        "gpt2",
        swapped_arguments,
        (EAGER,),
        (r"call aten::_scaled_dot_product_flash_attention_for_cpu\(%buf\d+.v_1, %buf\d+.v,",),
    ),
)
