"""Values, programs and their parts as immutable data; kernel identity; lookups that fail with a code."""

from __future__ import annotations

import copy
import dataclasses
import enum
import pickle
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from packages.wrapper_ir.tests.core.op_samples import INDEX, KERNEL, PROGRAM, W, X, tensor

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import BuildError
from wrapper_ir.expr import Int, Sym
from wrapper_ir.json.kernel_hash import content_hash, multi_hash
from wrapper_ir_tools.testing.catalogue import TRITON

MODULES = (
    "ir.types",
    "ir.kernels.params",
    "ir.kernels.host",
    "ir.kernels.triton",
    "ir.kernels.multi",
    "ir.schemas",
    "ir.program",
    "ir.signature",
    "artifact.model",
    "errors",
)


def data_classes(module: ModuleType) -> list[type]:
    return [
        c
        for c in vars(module).values()
        if isinstance(c, type) and c.__module__ == module.__name__ and dataclasses.is_dataclass(c)
    ]


@pytest.mark.parametrize("name", MODULES)
def test_the_model_is_frozen_and_slotted(name: str) -> None:
    classes = data_classes(import_module(f"wrapper_ir.{name}"))
    assert classes
    for cls in classes:
        # the parameters of the decorator are kept under this name
        assert cls.__dataclass_params__.frozen, cls  # type: ignore[attr-defined]  # not in the stubs
        assert "__slots__" in vars(cls), cls


@pytest.mark.parametrize("name", MODULES)
def test_the_model_holds_only_immutable_containers(name: str) -> None:
    """Fields are annotated with tuples, frozensets and read-only mappings, never with list, dict or set."""
    for cls in data_classes(import_module(f"wrapper_ir.{name}")):
        for field in dataclasses.fields(cls):
            assert not str(field.type).startswith(("list", "dict", "set")), (cls, field.name)


def test_values_are_immutable_and_equal_by_name_and_type() -> None:
    x = tensor("x", 8)
    for name in ("name", "type", "other"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(x, name, "y")
    assert x == X
    assert x is not X
    assert hash(x) == hash(X)
    assert x != tensor("y", 8)
    assert x != tensor("x", 9)
    assert x != tensor("x", 8, dtype=ir.DType.I32)
    assert ir.Value("x", ir.StorageType(Int(32))) != x
    assert x.__eq__("x") is NotImplemented
    assert {x: 1}[X] == 1


def test_values_can_be_copied_and_sent_to_a_process() -> None:
    for twin in (copy.copy(X), copy.deepcopy(X), pickle.loads(pickle.dumps(X))):
        assert twin == X
        assert hash(twin) == hash(X)


def test_programs_are_equal_by_content() -> None:
    twin = pickle.loads(pickle.dumps(PROGRAM))
    assert twin == PROGRAM
    assert hash(twin) == hash(PROGRAM)
    assert dataclasses.replace(PROGRAM, symbols=()) != PROGRAM
    with pytest.raises(dataclasses.FrozenInstanceError):
        PROGRAM.functions = ()  # type: ignore[misc]  # the point of the test


def test_changing_a_program_leaves_the_old_one() -> None:
    main = PROGRAM.main
    body = (ir.Comment(text="new"), *main.body)
    changed = dataclasses.replace(
        PROGRAM, functions=(dataclasses.replace(main, body=body), *PROGRAM.functions[1:])
    )
    assert len(PROGRAM.main.body) == 1
    assert changed.main.body == body


def test_look_ups_find_and_refuse() -> None:
    assert PROGRAM.function("owner").name == "owner"
    assert PROGRAM.kernel("k") is KERNEL
    assert PROGRAM.extern("aten::relu").name == "aten::relu"
    empty = ir.Program(functions=())
    for look, code in (
        (lambda: empty.main, "WIR302"),
        (lambda: empty.function("f"), "WIR303"),
        (lambda: empty.kernel("k"), "WIR304"),
        (lambda: empty.extern("aten::relu"), "WIR305"),
        (lambda: ir.Function(name="f", params=(), body=()).returns, "WIR301"),
        (lambda: ir.Function(name="f", params=(), body=(ir.Comment(text="x"),)).returns, "WIR301"),
    ):
        with pytest.raises(BuildError) as caught:
            look()
        assert caught.value.code == code
    assert ir.Function(name="f", params=(), body=(ir.Return(values=()),)).returns.values == ()


def test_index_tables_hold_every_definition_by_name() -> None:
    assert set(INDEX.functions) == {f.name for f in PROGRAM.functions}
    assert set(INDEX.kernels) == {"k"}
    assert set(INDEX.externs) == {e.name for e in PROGRAM.externs}
    assert set(INDEX.constants) == {W.name}
    assert set(INDEX.symbols) == {"s0"}


def test_of_two_definitions_the_first_is_indexed() -> None:
    first = ir.Function(name="f", params=(), body=(ir.Return(values=()),))
    second = ir.Function(name="f", params=(ir.Param(value=X),), body=(ir.Return(values=(X,)),))
    assert Analyses(ir.Program(functions=(first, second))).functions["f"] is first


def test_tree_specs_count_their_leaves() -> None:
    leaf = ir.TreeSpec(kind=ir.TreeKind.LEAF)
    pair = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(leaf, leaf))
    tree = ir.TreeSpec(
        kind=ir.TreeKind.DICT,
        children=(pair, leaf, ir.TreeSpec(kind=ir.TreeKind.NONE)),
        keys=('"a"', '"b"', '"c"'),
    )
    assert (leaf.num_leaves, pair.num_leaves, tree.num_leaves) == (1, 2, 3)
    assert ir.TreeSpec(kind=ir.TreeKind.LIST).num_leaves == 0


# --- kernel identity ---------------------------------------------------------------------------------------------

FOREIGN = ir.ForeignKernel(name="f", params=KERNEL.params, runtime="fpga", payload="AAAA")
OPERATOR = ir.OperatorKernel(
    name="o", params=KERNEL.params, schema="aten::mm.out", constants=(("stride", (1, 2)), ("alpha", 2))
)


def other(value: object) -> Any:  # Any: goes into a field whose type only its name tells
    """Returns a different value of the same kind."""
    match value:
        case str():
            return value + "x"
        case ir.Access():
            return ir.Access.READ if value is not ir.Access.READ else ir.Access.WRITE
        case ir.DType():
            return ir.DType.F64 if value is not ir.DType.F64 else ir.DType.F32
        case bool():
            return not value
        case int():
            return value + 1
        case tuple():
            return (*value, value[0] if value else "x")
        case enum.Enum():
            return next(m for m in type(value) if m is not value)
        case _:
            raise AssertionError(f"no other value of {value!r}")


@pytest.mark.parametrize("kernel", [KERNEL, FOREIGN, OPERATOR], ids=["cpp", "foreign", "operator"])
def test_the_hash_covers_all_fields_but_the_name(kernel: ir.KernelDef) -> None:
    original = content_hash(kernel)
    assert len(original) == 64
    assert content_hash(dataclasses.replace(kernel)) == original
    for field in dataclasses.fields(kernel):
        if field.name == "params":
            continue
        changes: dict[str, Any] = {field.name: other(getattr(kernel, field.name))}
        changed = dataclasses.replace(kernel, **changes)
        assert (content_hash(changed) == original) == (field.name == "name"), field.name


@pytest.mark.parametrize("kernel", [KERNEL, FOREIGN, OPERATOR], ids=["cpp", "foreign", "operator"])
def test_the_hash_covers_every_field_of_every_parameter(kernel: ir.KernelDef) -> None:
    hashes = {content_hash(kernel), content_hash(dataclasses.replace(kernel, params=kernel.params[:-1]))}
    changes = 0
    for i, param in enumerate(kernel.params):
        for field in dataclasses.fields(param):
            changed: Any = (Int(8),) if field.name == "block" else other(getattr(param, field.name))
            new = dataclasses.replace(param, **{field.name: changed})
            params = (*kernel.params[:i], new, *kernel.params[i + 1 :])
            hashes.add(content_hash(dataclasses.replace(kernel, params=params)))
            changes += 1
    hashes.add(content_hash(dataclasses.replace(kernel, params=kernel.params[::-1])))
    assert len(hashes) == changes + 3


def test_the_hash_covers_everything_of_a_triton_kernel_but_its_name() -> None:
    kernel = dataclasses.replace(
        TRITON,
        constants=(("k", 1),),
        options=(("o", 1),),
        reset=("out_ptr0",),
        multiprocessors=132,
        requires=(ir.Requirement(name="m"),),
    )
    config = dataclasses.replace(kernel.configs[0], options=(("o", 1),), grid=(Int(1),))
    kernels = [kernel]
    for field in dataclasses.fields(kernel):
        kernels.append(dataclasses.replace(kernel, **{field.name: other(getattr(kernel, field.name))}))
    for field in dataclasses.fields(config):
        changed = dataclasses.replace(config, **{field.name: other(getattr(config, field.name))})
        kernels += [dataclasses.replace(kernel, configs=(c,)) for c in (config, changed)]
    for value in (1, 1.0, True, "1", None, ir.DType.F32, "f32"):
        kernels.append(dataclasses.replace(kernel, constants=(("k", value),)))
    # the name, the config that is changed (once for each of its fields), and the constant 1
    repeated = 1 + len(dataclasses.fields(config)) - 1 + 1
    assert len({content_hash(k) for k in kernels}) == len(kernels) - repeated


def test_a_multi_kernel_is_its_ordered_kernels() -> None:
    other_policy = dataclasses.replace(
        TRITON, name="b", source=TRITON.source.replace("tl.load(", "tl.load(  ")
    )
    kernels: dict[str, ir.KernelDef] = {"a": TRITON, "b": other_policy, "c": TRITON, "plain": KERNEL}
    args = tuple(range(len(TRITON.params)))

    def multi(*names: str) -> ir.MultiKernel:
        variants = tuple(ir.Variant(kernel=name, args=args) for name in names)
        return ir.MultiKernel(name="m", params=TRITON.params, variants=variants)

    hashes = [multi_hash(multi(*names), kernels) for names in ("ab", "cb", "ba", "ac")]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
    assert ir.runtime_kind(multi("a")) == "triton"


def test_what_a_multi_kernel_chooses_from_is_needed() -> None:
    one, two = (dataclasses.replace(TRITON, name=name) for name in ("one", "two"))
    variants = tuple(ir.Variant(kernel=k.name, args=(0, 1, 2), grid=(0,)) for k in (one, two))
    multi = ir.MultiKernel(name="multi", params=TRITON.params, variants=variants, grid_params=("g",))
    assert ir.needed([one, KERNEL, two, multi], {"multi"}) == (one, two, multi)
    assert ir.needed([one, KERNEL, two, multi], {"two"}) == (two,)


def test_the_hash_keeps_parts_and_kinds_apart() -> None:
    a = ir.CppKernel(name="k", params=(), source="ab", entry="c")
    b = ir.CppKernel(name="k", params=(), source="a", entry="bc")
    c = ir.ForeignKernel(name="k", params=(), runtime="ab", payload="c")
    d = dataclasses.replace(a, isa=("avx2", "fma"))
    e = dataclasses.replace(a, isa=("avx2,fma",))
    assert len({content_hash(k) for k in (a, b, c, d, e)}) == 5


def test_runtime_kinds() -> None:
    assert ir.runtime_kind(KERNEL) == "cpp"
    assert ir.runtime_kind(FOREIGN) == "fpga"
    assert ir.runtime_kind(OPERATOR) == "triton"


@pytest.mark.parametrize(
    ("access", "reads", "writes"),
    [
        (ir.Access.NONE, False, False),
        (ir.Access.READ, True, False),
        (ir.Access.WRITE, False, True),
        (ir.Access.READWRITE, True, True),
    ],
)
def test_access(access: ir.Access, reads: bool, writes: bool) -> None:
    assert (access.reads, access.writes) == (reads, writes)


def test_symbolic_types_compare_by_structure() -> None:
    """Expressions are interned, so types built twice are equal and hash alike."""
    one = ir.TensorType(ir.DType.F32, (Sym("s0") * 2,), (Int(1),))
    two = ir.TensorType(ir.DType.F32, (2 * Sym("s0"),), (Int(1),))
    assert one == two
    assert hash(one) == hash(two)
