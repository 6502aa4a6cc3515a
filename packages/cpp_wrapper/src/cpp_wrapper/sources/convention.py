"""Writes the calling convention for torch's runners: the model's flat arguments and outputs, and pytree
specs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import Plan
from wrapper_ir_runtime.trees import tree_keys

_CONTAINERS = {
    ir.TreeKind.TUPLE: "builtins.tuple",
    ir.TreeKind.LIST: "builtins.list",
    ir.TreeKind.DICT: "builtins.dict",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The model's inputs, as runners know them: `leaves` of the signature's inputs, with their names."""

    signature: ir.Signature
    leaves: tuple[int, ...]
    names: tuple[str, ...]


def model_of(plan: Plan) -> ModelInputs:
    """Returns the model's inputs and its signature.

    Inputs are the leaves that the capture did not specialize on, in order: all tensors among the arguments.
    If several inputs share memory of a parameter, inputs are the program's parameters.
    """
    signature = plan.artifact.signature
    own = [param.value.name for param in plan.main.function.params]
    if signature.shared:
        signature = ir.Signature(
            inputs=ir.TreeSpec(
                kind=ir.TreeKind.TUPLE, children=(ir.TreeSpec(kind=ir.TreeKind.LEAF),) * len(own)
            ),
            params=tuple(range(len(own))),
            outputs=ir.TreeSpec(kind=ir.TreeKind.LEAF),
            bindings=tuple(ir.ResultOutput(index=n) for n in range(len(plan.main.function.returns.values))),
            names=tuple(own),
        )
    static = {s.leaf for s in signature.statics}
    leaves = tuple(leaf for leaf in range(signature.inputs.num_leaves) if leaf not in static)
    names = (own[signature.params.index(n)] if n in signature.params else signature.name(n) for n in leaves)
    return ModelInputs(signature=signature, leaves=leaves, names=tuple(names))


def write_convention(plan: Plan) -> list[str]:
    """Returns the definition of `kConvention`."""
    model = model_of(plan)
    signature = model.signature
    place = {leaf: number for number, leaf in enumerate(model.leaves)}
    leaves, names = model.leaves, model.names
    results = tuple(ir.ResultOutput(index=n) for n in range(len(plan.main.function.returns.values)))
    is_plain = signature.params == leaves and signature.bindings == results
    inputs = ", ".join(str(place[leaf]) for leaf in signature.params)
    specs = ", ".join(map(cpp_string, spec_texts(signature)))
    return [
        f"const char* const kInputs[] = {{{', '.join([*map(cpp_string, names), 'nullptr'])}}};",
        f"const int kInputOf[] = {{{inputs or 0}}};",
        "const Output kOutputs[] = {",
        *(f"  {_output(binding, place)}," for binding in signature.bindings),
        "  {Output::kNone, 0, 0.0},",
        "};",
        "const Convention kConvention = {",
        f"  {len(leaves)}, {len(signature.bindings)}, kInputs, "
        f"{'nullptr' if is_plain else 'kInputOf'}, kOutputs,",
        f"  {specs},",
        "};",
    ]


def _output(binding: ir.OutputBinding, place: dict[int, int]) -> str:
    match binding:
        case ir.ResultOutput(index=index) | ir.InputView(index=index) | ir.ResultView(index=index):
            return f"{{Output::kResult, {index}, 0.0}}"
        case ir.InputOutput(leaf=leaf) if leaf in place:
            return f"{{Output::kInput, {place[leaf]}, 0.0}}"
        case ir.ConstantOutput(value=Int(value=value)) if -(2**63) <= value < 2**63:
            return f"{{Output::kInt, {value}, 0.0}}"
        case ir.ConstantOutput(value=Bool(value=value)):
            return f"{{Output::kBool, {int(value)}, 0.0}}"
        case ir.ConstantOutput(value=Float(value=value)) if abs(value) < float("inf"):
            return f"{{Output::kFloat, 0, {value!r}}}"
        case _:
            return "{Output::kNone, 0, 0.0}"


def spec_texts(signature: ir.Signature) -> tuple[str, str]:
    """Returns the structures of inputs and outputs as texts of torch's pytrees."""
    return _spec_text(signature.inputs), _spec_text(signature.outputs)


def _spec_text(spec: ir.TreeSpec) -> str:
    """Returns a structure as `torch.utils._pytree.treespec_dumps` writes it; '' if torch cannot write it.

    Assumes that custom classes are registered under their qualified names, as transformers' are.
    """
    try:
        return json.dumps([1, _spec(spec)])
    except KeyError:
        return ""


def _spec(spec: ir.TreeSpec) -> dict[str, object]:
    if spec.kind in (ir.TreeKind.LEAF, ir.TreeKind.NONE):  # None is a leaf to torch
        return {"type": None, "context": None, "children_spec": []}
    if spec.kind is ir.TreeKind.CUSTOM:
        children = [_spec(child) for child in spec.children]
        return {"type": spec.type_name.replace(":", "."), "context": spec.context, "children_spec": children}
    context = json.dumps(tree_keys(spec) if spec.kind is ir.TreeKind.DICT else None)
    children = [_spec(child) for child in spec.children]
    return {"type": _CONTAINERS[spec.kind], "context": context, "children_spec": children}
