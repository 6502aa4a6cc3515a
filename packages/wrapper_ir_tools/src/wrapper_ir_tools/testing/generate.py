"""Generates random valid programs: random steps in `main`, lifetimes derived at the end."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import struct

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.builder import ProgramBuilder, tensor_type
from wrapper_ir.expr import Int, SymKind
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_tools.testing.any_op import any_op
from wrapper_ir_tools.testing.calls import CALL_STEPS
from wrapper_ir_tools.testing.hostile import hostile_source
from wrapper_ir_tools.testing.numbers import random_float, random_int
from wrapper_ir_tools.testing.steps import STEPS
from wrapper_ir_tools.testing.steps_devices import ACCELERATOR_STEPS
from wrapper_ir_tools.testing.steps_memory import fill
from wrapper_ir_tools.testing.world import RandomOptions, World

_WEIGHT = struct.pack("<16f", *(0.25 * k - 2 for k in range(16)))
_STATE = bytes(64)


def random_program(rng: random.Random, size: int = 20, options: RandomOptions | None = None) -> ir.Program:
    """Generates a valid program of about `size` steps, each a few ops; every op family occurs in some
    programs.

    `main` takes `f32[s0, 8]`, `f32[4, 4]`, an int, an owned `f32[16]` and a `bool[]`. If the program need not
    be executable, it also takes handles. The same state of `rng` yields the same program.
    """
    options = options or RandomOptions()
    w = _main(rng, options)
    steps = (*STEPS, *STEPS, *CALL_STEPS, *(() if options.executable else ACCELERATOR_STEPS))
    steps += tuple(any_op(spec) for cls, spec in options.ops.specs.items() if cls not in ir.OPS)
    for _ in range(size):
        w.step()
        rng.choice(steps)(w)
    w.step()
    if rng.random() < 0.3:
        _change_storage(w)
    w.function.ret(_results(w))
    program = derive_frees(w.program.finish())
    return _with_hostile_sources(rng, program) if options.hostile else program


def _target(rng: random.Random, options: RandomOptions) -> ir.Target:
    if options.executable or rng.random() < 0.5:
        return ir.Target()
    device = rng.choice((ir.Device("cuda", 0), ir.Device("xpu"), ir.Device("odd device:1", 2)))
    return ir.Target(device=device, arch=rng.choice(("", "sm_90")))


def _main(rng: random.Random, options: RandomOptions) -> World:
    program = ProgramBuilder(_target(rng, options))
    w = World(rng=rng, options=options, program=program, function=program.function("main"))
    w.step()
    weight = _constant(w, "weight", _WEIGHT, mutable=False)
    state = _constant(w, "state", _STATE, mutable=True)
    rows = w.symbol(backed=True, lower=2)
    f = w.function
    x = f.param(w.name("arg0"), tensor_type(ir.DType.F32, (rows, 8)))
    square = f.param(w.name("arg1"), tensor_type(ir.DType.F32, (4, 4)))
    w.scalars.append(f.param(w.name("n"), ir.ScalarType(SymKind.INT)))
    donated = f.param(w.name("donated"), tensor_type(ir.DType.F32, (16,)), ir.Ownership.OWNED)
    w.predicates.append(f.param(w.name("p"), tensor_type(ir.DType.BOOL, ())))
    f.define(rows.name, ir.SizeOf(x, 0))
    w.symbols.append(rows)
    if not options.executable and rng.random() < 0.5:
        w.generators.append(f.param(w.name("g"), ir.OpaqueType(ir.OpaqueKind.GENERATOR)))
        f.param(w.name("group"), ir.OpaqueType(ir.OpaqueKind.PROCESS_GROUP, w.string()))
    w.hold(x, own=False, mutable=False)
    w.hold(square, own=False)
    w.hold(donated)
    w.hold(weight, own=False, mutable=False)
    w.hold(state, own=False)
    return w


def _constant(w: World, wish: str, data: bytes, *, mutable: bool) -> ir.Value[ir.TensorType]:
    value = ir.Value(w.name(wish), tensor_type(ir.DType.F32, (16,)))
    digest = hashlib.sha256(data).hexdigest()
    w.program.constant(ir.Constant(value=value, data_hash=digest, mutable=mutable))
    return value


def _change_storage(w: World) -> None:
    """Appends resize_storage and set_storage of new allocations that nothing else uses."""
    target, source = w.alloc(tensor_type(ir.DType.F32, (8,))), w.alloc(tensor_type(ir.DType.F32, (8,)))
    w.append(ir.ResizeStorage(target=target.value, nbytes=Int(64)))
    w.append(ir.SetStorage(target=target.value, source=source.value))
    w.forget(target.root)
    w.forget(source.root)


def _results(w: World) -> tuple[ir.Arg, ...]:
    """The results of main: new tensors, numbers, none; at least one tensor."""
    fill(w)
    own = [t for t in w.tensors if t.own and t.ready]
    selection = w.rng.sample(own, min(len(own), w.rng.randrange(1, 4)))
    roots: set[int] = set()
    results: list[ir.Arg] = []
    for entry in selection:
        if entry.root not in roots:
            results.append(entry.value)
            roots.add(entry.root)
    results.append(random_int(w.rng, w.symbols))
    if w.rng.random() < 0.5:
        results += [None, random_float(w.rng, w.symbols)]
    return tuple(results)


def _with_hostile_sources(rng: random.Random, program: ir.Program) -> ir.Program:
    kernels = tuple(
        hostile_source(rng, k) if isinstance(k, ir.CppKernel) and rng.random() < 0.3 else k
        for k in program.kernels
    )
    return dataclasses.replace(program, kernels=kernels)


def random_artifact(rng: random.Random, size: int = 20, options: RandomOptions | None = None) -> Artifact:
    """Generates a random program, the data of its constants, and a signature of positional arguments."""
    program = random_program(rng, size, options)
    data = {
        c.value.name: TensorData(ir.DType.F32, memoryview(_STATE if c.mutable else _WEIGHT))
        for c in program.constants
    }
    return bare_artifact(program, data)
