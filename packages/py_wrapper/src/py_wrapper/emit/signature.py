"""Writes `forward`, which converts between the model's signature and the flat calling convention.

The structures are known, so straight-line code flattens and rebuilds them. Rare cases call functions of
`wrapper_ir_runtime`, which the interpreter shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from py_wrapper.emit.arguments import arguments_of, head_of, in_order
from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.literals import key_text, literal_text
from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.names import namer
from py_wrapper.emit.writer import Writer, targets, tuple_text
from wrapper_ir import ir
from wrapper_ir.support.quoting import python_attribute, python_docstring, python_keyword, python_string
from wrapper_ir_runtime import apart_leaves, gradient_leaves, refuse_unsupported
from wrapper_ir_runtime.trees import tree_keys

_CHANGES = {
    ir.WriteBackKind.COPY: "copy",
    ir.WriteBackKind.METADATA: "reshape",
    ir.WriteBackKind.REPLACE: "replace",
}


def write_forward(scope: ModuleScope, signature: ir.Signature, out: Writer) -> None:
    """Writes `def forward(x, *, mask=None):`, which calls `boxed`. Raises EmitError PY102 if the signature
    does not match the program, and NotSupportedError WIR916."""
    refuse_unsupported(signature)
    _Forward(scope, signature, out).write()


class _Forward:
    def __init__(self, scope: ModuleScope, signature: ir.Signature, out: Writer) -> None:
        self.scope = scope
        self.signature = signature
        self.out = out
        self.names = namer(scope.names.taken)
        self.leaves: list[str] = []
        self.statics = {s.leaf: literal_text(s.value) for s in signature.statics}

    def write(self) -> None:
        """Writes the whole function."""
        arguments = arguments_of(self.signature, self.names)
        for argument in arguments:
            self.scope.names.claim(argument.name)  # parameters must not hide globals that are used
        heads, unchecked = head_of(arguments)
        if unchecked:
            self.scope.runtime("REQUIRED")
        self.out.line(f"@{self.scope.runtime('coded_call')}(boxed)")
        self.out.items("def forward(", heads, "):")
        with self.out.block_body():
            devices = ", ".join(str(state.device) for state in self.signature.random)
            random = (
                f" Draws random numbers from torch's default generator ({python_docstring(devices)})."
                if devices
                else ""
            )
            self.out.line(f'"""The model\'s own signature.{random}"""')
            for argument in unchecked:
                with self.out.block(f"if {argument.name} is REQUIRED:"):
                    self.out.line(f"{self.scope.runtime('fail_missing')}({python_string(argument.name)})")
            for argument in arguments:
                if argument.spec is None:
                    self._expect(argument.name, argument.default)
            for name, spec in in_order(arguments):
                self._take_apart(name, spec)
            for leaf, text in self.statics.items():
                self._expect(self.leaves[leaf], text)
            self._unwrap()
            self._check()
            self._call()

    def _local(self, candidate: str) -> str:
        """Returns a variable that hides no global that is used later."""
        return self.scope.names.claim(self.names(candidate))

    # --- arguments

    def _take_apart(self, name: str, spec: ir.TreeSpec) -> None:
        """Appends the leaves of one argument."""
        if spec.kind is ir.TreeKind.LEAF:
            self.leaves.append(name)
            return
        children = [self._local(f"{name}_{i}") for i in range(len(spec.children))]
        head = targets(children) or "() = "
        match spec.kind:
            case ir.TreeKind.NONE:
                self.out.line(f"{self.scope.runtime('expect_static')}({python_string(name)}, {name}, None)")
            case ir.TreeKind.TUPLE | ir.TreeKind.LIST | ir.TreeKind.NAMEDTUPLE:
                self.out.line(f"{head}{name}")
            case ir.TreeKind.DICT:
                keys = tree_keys(spec)
                expect = self.scope.runtime("expect_keys")
                values = ", ".join(f"{name}[{key_text(key)}]" for key in keys)
                self.out.line(
                    f"{expect}({python_string(name)}, {name}, {tuple_text([key_text(k) for k in keys])})"
                )
                if children:
                    self.out.line(f"{head}{values}{',' if len(children) == 1 else ''}")
            case ir.TreeKind.DATACLASS:
                expect = self.scope.runtime("expect_class")
                self.out.line(f"{expect}({python_string(name)}, {name}, {self._class(spec)})")
                if children:
                    values = ", ".join(python_attribute(name, key) for key in spec.keys)
                    self.out.line(f"{head}{values}{',' if len(children) == 1 else ''}")
            case ir.TreeKind.CUSTOM:
                flatten, _ = self.scope.container(spec)
                self.out.line(f"{head}{flatten}({name})")
        for child, child_spec in zip(children, spec.children, strict=True):
            self._take_apart(child, child_spec)

    def _expect(self, name: str, text: str) -> None:
        expect = self.scope.runtime("expect_static")
        if text in ("None", "True", "False"):
            with self.out.block(f"if {name} is not {text}:"):
                self.out.line(f"{expect}({python_string(name)}, {name}, {text})")
        else:
            self.out.line(f"{expect}({python_string(name)}, {name}, {text})")

    def _unwrap(self) -> None:
        for unwrap in self.signature.unwraps:
            spec, name = unwrap.subclass, self.leaves[unwrap.leaf]
            parts = [self._local(f"{name}_{attribute}") for attribute in spec.attributes]
            parts += [self._local(f"{name}_dim") for _ in range(spec.num_parts - len(parts))]
            self.out.line(f"{targets(parts) or '() = '}{self._subclass(spec)}.unwrap({name})")
            self.leaves += parts

    # --- checks

    def _named(self, leaves: Sequence[int]) -> str:
        return f"[{', '.join(f'({python_string(self.leaves[i])}, {self.leaves[i]})' for i in leaves)}]"

    def _check(self) -> None:
        """Checks that autograd has nothing to record, and that tensors share memory as at capture."""
        tensors = self._tensor_leaves()
        differentiable = [i for i in gradient_leaves(self.signature) if tensors.get(i)]
        if differentiable:
            any_requires_grad = self.scope.helper(Helper.ANY_GRADIENT)
            args = ", ".join(self.leaves[i] for i in differentiable)
            with self.out.block(f"if torch.is_grad_enabled() and {any_requires_grad}({args}):"):
                self.out.items(
                    f"{self.scope.runtime('refuse_gradient')}(", [self._named(differentiable)], ")"
                )
        for same in self.signature.same:
            self._checked("expect_same", [self._named(same.leaves)])
        for leaf, others in apart_leaves(self.signature):
            apart = [i for i in others if i in tensors]
            if apart:
                name = self.leaves[leaf]
                self._checked("expect_apart", [f"({python_string(name)}, {name})", self._named(apart)])

    def _checked(self, function: str, args: Sequence[str]) -> None:
        self.out.items(f"{self.scope.runtime(function)}(", [self._caller(), *args], ")")

    def _tensor_leaves(self) -> dict[int, bool]:
        """Returns the leaves that the program uses as tensors, and whether they can have a gradient."""
        leaves = {i: True for i in gradient_leaves(self.signature) if i not in self.signature.params}
        for leaf, param in zip(self.signature.params, self.scope.program.main.params):
            type = param.value.type
            if isinstance(type, ir.TensorType):
                leaves[leaf] = type.dtype.is_floating or type.dtype.is_complex
        return leaves

    # --- results

    def _call(self) -> None:
        results = len(self.scope.program.main.returns.values)
        names = [self._local(f"out{i}") for i in range(results)]
        args = [self.leaves[leaf] for leaf in self.signature.params]
        for shared in self.signature.shared:
            args[shared.param] = self._window(shared)
        self.out.items(f"{targets(names)}boxed([", args, "])")
        for leaf in self.signature.written:
            self.out.line(f"{self._caller()}.mark_written({self.leaves[leaf]})")
        for back in self.signature.write_backs:
            change = f"{self._caller()}.{_CHANGES[back.kind]}"
            self.out.line(f"{change}({self.leaves[back.leaf]}, {names[back.result]})")
        outputs = iter(self._outputs(names))
        self.out.line(f"return {self._build(self.signature.outputs, outputs)}")

    def _outputs(self, results: Sequence[str]) -> list[str]:
        """Returns each output as text. A created output that occurs more than once gets a variable."""
        texts: dict[ir.OutputBinding, str] = {}
        for binding, count in Counter(self.signature.bindings).items():
            text = self._output(binding, results)
            if count > 1 and isinstance(binding, ir.InputView | ir.ResultView | ir.WrappedOutput):
                name = self._local("shared_out")
                self.out.line(f"{name} = {text}")
                text = name
            texts[binding] = text
        return [texts[binding] for binding in self.signature.bindings]

    def _window(self, shared: ir.SharedStorage) -> str:
        places = ", ".join(
            f"SharedLeaf(leaf={p.leaf}, sizes={p.sizes}, strides={p.strides}, offset={p.offset})"
            for p in shared.places
        )
        self.scope.runtime("SharedLeaf")
        self.scope.runtime("SharedStorage")
        comma = "," if len(shared.places) == 1 else ""
        text = f"SharedStorage(param={shared.param}, places=({places}{comma}))"
        window = self._local("window")
        leaves = self._named([p.leaf for p in shared.places])
        function = self.scope.runtime("shared_window")
        self.out.items(
            f"{window} = {function}(", [self._caller(), self.scope.lookup("shared", text), leaves], ")"
        )
        return window

    def _output(self, binding: ir.OutputBinding, results: Sequence[str]) -> str:
        match binding:
            case ir.ResultOutput(index=index):
                return results[index]
            case ir.InputOutput(leaf=leaf):
                return self.leaves[leaf]
            case ir.ConstantOutput(value=value):
                return literal_text(value)
            case ir.InputView(index=index, leaf=leaf):
                return f"{self._caller()}.view_of({self.leaves[leaf]}, {results[index]})"
            case ir.ResultView(index=index, base=base):
                return f"{self._caller()}.view_of({results[base]}, {results[index]})"
            case ir.WrappedOutput(subclass=spec, parts=parts):
                inner = ", ".join(self._output(part, results) for part in parts)
                return f"{self._subclass(spec)}.wrap([{inner}])"

    def _build(self, spec: ir.TreeSpec, leaves: Iterator[str]) -> str:
        if spec.kind is ir.TreeKind.LEAF:
            return next(leaves)
        children = [self._build(child, leaves) for child in spec.children]
        match spec.kind:
            case ir.TreeKind.NONE:
                return "None"
            case ir.TreeKind.TUPLE:
                return tuple_text(children)
            case ir.TreeKind.LIST:
                return f"[{', '.join(children)}]"
            case ir.TreeKind.DICT:
                pairs = zip(tree_keys(spec), children, strict=True)
                return "{" + ", ".join(f"{key_text(key)}: {child}" for key, child in pairs) + "}"
            case ir.TreeKind.NAMEDTUPLE:
                return f"{self._class(spec)}({', '.join(children)})"
            case ir.TreeKind.DATACLASS:
                fields = map(python_keyword, spec.keys, children)
                return f"{self._class(spec)}({', '.join(fields)})"
            case ir.TreeKind.CUSTOM:
                _, build = self.scope.container(spec)
                return f"{build}({tuple_text(children)})"

    # --- look-ups at load time

    def _caller(self) -> str:
        self.scope.runtime("TorchCaller")
        return self.scope.lookup("caller", "TorchCaller(torch)")

    def _class(self, spec: ir.TreeSpec) -> str:
        function = "namedtuple_of" if spec.kind is ir.TreeKind.NAMEDTUPLE else "dataclass_of"
        fields = tuple_text([python_string(key) for key in spec.keys])
        candidate = spec.type_name.rpartition(":")[2].rpartition(".")[2]
        text = f"{self.scope.runtime(function)}({python_string(spec.type_name)}, {fields})"
        return self.scope.lookup(candidate, text)

    def _subclass(self, spec: ir.SubclassSpec) -> str:
        self.scope.runtime("Subclass")
        self.scope.runtime("SubclassSpec")
        attributes = tuple_text([python_string(a) for a in spec.attributes])
        inner = (
            f"SubclassSpec(type_name={python_string(spec.type_name)}, attributes={attributes}, "
            f"context={python_string(spec.context)}, sizes={spec.sizes}, strides={spec.strides})"
        )
        candidate = spec.type_name.rpartition(":")[2].rpartition(".")[2]
        return self.scope.lookup(candidate, f"Subclass({inner}, {self._caller()}.native)")
