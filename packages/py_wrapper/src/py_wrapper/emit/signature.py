"""Writes `forward`: the model's own arguments and results around the flat calling convention.

The structures are known, so they are taken apart and put together by straight-line code.
"""

from __future__ import annotations

from collections.abc import Iterator

from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.names import Namer
from py_wrapper.emit.writer import Writer, quoted, targets, tuple_text
from py_wrapper.errors import EmitError
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.ops import Arg, Complex
from wrapper_ir.runtime.trees import tree_keys
from wrapper_ir.signature import ConstantOutput, InputOutput, ResultOutput, Signature, TreeKind, TreeSpec
from wrapper_ir.types import Device, DType, Layout, MemoryFormat

__all__ = ["write_forward"]


def write_forward(scope: ModuleScope, signature: Signature, out: Writer) -> None:
    """`def forward(x, *, mask=None):`, calling `boxed`; raises EmitError PY102 where the signature does not fit."""
    _Forward(scope, signature, out).write()


class _Forward:
    def __init__(self, scope: ModuleScope, signature: Signature, out: Writer) -> None:
        self.scope = scope
        self.signature = signature
        self.out = out
        self.names = Namer(scope.names.taken)
        self.leaves: list[str] = []
        self.statics = {s.leaf: literal_text(s.value) for s in signature.statics}

    def write(self) -> None:
        """The whole function."""
        args, kwargs = self._arguments()
        params: list[tuple[str, TreeSpec]] = []
        heads = [*self._positional(args, params), *self._keywords(kwargs, params)]
        self.out.items("def forward(", heads, "):")
        with self.out.block_body():
            self.out.line('"""The model\'s own signature."""')
            for name, spec in params:
                self._take_apart(name, spec)
            for leaf, text in self.statics.items():
                self._expect(leaf, text)
            self._call()
        self.out.line()
        self.out.line()
        self.out.line("forward.boxed = boxed")

    # --- arguments

    def _arguments(self) -> tuple[TreeSpec, TreeSpec]:
        children = self.signature.inputs.children
        if (
            len(children) != 2
            or children[0].kind is not TreeKind.TUPLE
            or children[1].kind is not TreeKind.DICT
        ):
            raise EmitError("PY102", "the signature's inputs are no (arguments, keywords)")
        return children[0], children[1]

    def _leaf_number(self, params: list[tuple[str, TreeSpec]]) -> int:
        return sum(spec.num_leaves for _, spec in params)

    def _wish(self, leaf: int, fallback: str) -> str:
        names = self.signature.names
        return names[leaf] if leaf < len(names) else fallback

    def _positional(self, args: TreeSpec, params: list[tuple[str, TreeSpec]]) -> Iterator[str]:
        first_leaves: list[int] = []
        for number, spec in enumerate(args.children):
            leaf = self._leaf_number(params)
            first_leaves.append(leaf)
            wish = self._wish(leaf, f"arg{number}") if spec.kind is TreeKind.LEAF else f"arg{number}"
            params.append((self.names(wish), spec))
        required = 0
        for number, ((_, spec), leaf) in enumerate(zip(params, first_leaves)):
            if spec.kind is not TreeKind.LEAF or leaf not in self.statics:
                required = number + 1
        for number, ((name, _), leaf) in enumerate(zip(params, first_leaves)):
            yield name if number < required else f"{name}={self.statics[leaf]}"

    def _keywords(self, kwargs: TreeSpec, params: list[tuple[str, TreeSpec]]) -> Iterator[str]:
        if kwargs.children:
            yield "*"
        for key, spec in zip(tree_keys(kwargs), kwargs.children, strict=True):
            leaf = self._leaf_number(params)
            name = self.names(str(key))
            if name != key:
                raise EmitError("PY102", f"{key!r} cannot be the name of a keyword argument")
            params.append((name, spec))
            default = self.statics.get(leaf) if spec.kind is TreeKind.LEAF else None
            yield name if default is None else f"{name}={default}"

    def _take_apart(self, name: str, spec: TreeSpec) -> None:
        """Appends the leaves of one argument."""
        if spec.kind is TreeKind.LEAF:
            self.leaves.append(name)
            return
        children = [self.names(f"{name}_{i}") for i in range(len(spec.children))]
        left = targets(children) or "() = "
        match spec.kind:
            case TreeKind.NONE:
                self.out.line(f"{self.scope.runtime('expect_static')}({quoted(name)}, {name}, None)")
            case TreeKind.TUPLE | TreeKind.LIST | TreeKind.NAMEDTUPLE:
                self.out.line(f"{left}{name}")
            case TreeKind.DICT:
                keys = tree_keys(spec)
                expect = self.scope.runtime("expect_keys")
                values = ", ".join(f"{name}[{_key(key)}]" for key in keys)
                self.out.line(f"{expect}({quoted(name)}, {name}, {tuple_text([_key(k) for k in keys])})")
                if children:
                    self.out.line(f"{left}{values}{',' if len(children) == 1 else ''}")
            case TreeKind.CUSTOM:
                flatten, _ = self.scope.container(spec)
                self.out.line(f"{left}{flatten}({name})")
        for child, child_spec in zip(children, spec.children, strict=True):
            self._take_apart(child, child_spec)

    def _expect(self, leaf: int, text: str) -> None:
        name = self.leaves[leaf]
        expect = self.scope.runtime("expect_static")
        if text in ("None", "True", "False"):
            with self.out.block(f"if {name} is not {text}:"):
                self.out.line(f"{expect}({quoted(name)}, {name}, {text})")
        else:
            self.out.line(f"{expect}({quoted(name)}, {name}, {text})")

    # --- results

    def _call(self) -> None:
        results = len(self.scope.program.main.returns.values)
        names = [self.names(f"out{i}") for i in range(results)]
        args = [self.leaves[leaf] for leaf in self.signature.params]
        self.out.items(f"{targets(names)}boxed([", args, "])")
        for back in self.signature.write_backs:
            self.out.line(f"{self.leaves[back.leaf]}.copy_({names[back.result]})")
        outputs: list[str] = []
        for binding in self.signature.bindings:
            match binding:
                case ResultOutput(index=index):
                    outputs.append(names[index])
                case InputOutput(leaf=leaf):
                    outputs.append(self.leaves[leaf])
                case ConstantOutput(value=value):
                    outputs.append(literal_text(value))
        self.out.line(f"return {self._build(self.signature.outputs, iter(outputs))}")

    def _build(self, spec: TreeSpec, leaves: Iterator[str]) -> str:
        if spec.kind is TreeKind.LEAF:
            return next(leaves)
        children = [self._build(child, leaves) for child in spec.children]
        match spec.kind:
            case TreeKind.NONE:
                return "None"
            case TreeKind.TUPLE:
                return tuple_text(children)
            case TreeKind.LIST:
                return f"[{', '.join(children)}]"
            case TreeKind.DICT:
                pairs = zip(tree_keys(spec), children, strict=True)
                return "{" + ", ".join(f"{_key(key)}: {child}" for key, child in pairs) + "}"
            case TreeKind.NAMEDTUPLE:
                return f"{self.scope.class_name(spec.type_name)}({', '.join(children)})"
            case TreeKind.CUSTOM:
                _, build = self.scope.container(spec)
                return f"{build}({tuple_text(children)})"


def _key(key: object) -> str:
    return quoted(key) if isinstance(key, str) else repr(key)


def literal_text(value: Arg) -> str:
    """Python text of a literal; raises EmitError PY102 for what is none."""
    match value:
        case None:
            return "None"
        case str():
            return quoted(value)
        case Int() | Bool():
            return repr(value.value)
        case Float():
            return (
                f"float({quoted(str(value.value))})" if value.value - value.value != 0 else repr(value.value)
            )
        case Complex():
            return f"complex({literal_text(value.real)}, {literal_text(value.imag)})"
        case tuple():
            return f"[{', '.join(literal_text(item) for item in value)}]"
        case DType():
            return f"torch.{value.torch_name}"
        case Device():
            return f"torch.device({quoted(str(value))})"
        case MemoryFormat() | Layout():
            return f"torch.{value.value}"
        case _:
            raise EmitError("PY102", f"{value} is no literal")
