"""Artifacts of IR text for the interpreter."""

from __future__ import annotations

from packages.wrapper_ir_runtime.tests.interp.list_machine import find_runtime

from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir_runtime.interp import InterpOptions

HEADER = """wir 0.5
target cpu

symbol s0 : int backed [0, *] hint 2
symbol u0 : int unbacked
symbol u1 : float unbacked

mutable const %state : f32[2]

extern "list::neg(Tensor self) -> Tensor"
extern "list::add(Tensor self, Tensor other) -> Tensor"
extern "list::add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
extern "list::less(Tensor self, Scalar other) -> Tensor"
extern "list::split(Tensor self) -> (Tensor, Tensor)"
extern "list::nested(Tensor(a) self) -> Any" tags(may_alias)
extern "list::fail(Tensor self) -> Tensor"
extern "list::log(Tensor self) -> Tensor"
extern "list::draw(Tensor self) -> Tensor" tags(random)
extern "list::negs(Tensor[] tensors) -> Tensor[]"
extern "list::sum(Tensor self, str group_name) -> Tensor" tags(collective)

kernel foreign @double runtime "list" (read f32* source, write f32* target, i64 count) {{{
double
}}}
kernel foreign @count_grid runtime "list" (readwrite f32* x) {{{
count_grid
}}}

"""


OPTIONS = InterpOptions(find_runtime=find_runtime)


STATE = TensorData(ir.DType.F32, memoryview(bytes(8)))


def parse(text: str) -> ir.Program:
    return parse_program(HEADER + text)


def artifact(text: str) -> Artifact:
    return bare_artifact(parse(text), {"state": STATE})


X = [1.0, -2.0]
