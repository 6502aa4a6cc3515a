"""Compiles the native operators into one library, and calls them over torch's tensors."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper.runtime_build import NATIVE_RUNTIME, UNIT, unit_text
from cpp_wrapper.sources.native import operator_files
from cpp_wrapper.sources.shims import LIST, c_signature, is_input, parsed, writes_arguments
from wrapper_ir import ir

_SOURCES = Path(cpp_wrapper.__file__).parent
_INTERFACE = Path(wrapper_ir_native.__file__).parent / "include" / "wrapper_ir"
_NATIVE, _SHARED = _SOURCES / "native", _SOURCES / "sources" / "text"
_OPERATORS, _VECTORS = _NATIVE / "operators", _NATIVE / "vectors"
_FLAGS = ("-std=c++20", "-O1", "-fPIC", "-fno-math-errno", "-w")
_CODES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
    torch.float32: 6, torch.float64: 7, torch.complex32: 8, torch.complex64: 9, torch.complex128: 10,
    torch.bool: 11, torch.bfloat16: 15, torch.float8_e5m2: 23, torch.float8_e4m3fn: 24, torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_FORMATS = {
    torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3
}  # fmt: skip
_SUPPORT = """
#include "dlpack.h"
#include "operator.h"
const wir::Program wir_program{};
const wir_description wir_model_description{};
const int wir_result_order[1] = {};
using namespace wir;
static std::string error;
extern "C" {
const char* t_error() { return error.c_str(); }
Tensor t_tensor(unsigned char* data, int64_t nbytes, int64_t offset, int64_t rank, const int64_t* sizes,
                const int64_t* strides, int32_t dtype) {
  Tensor made = borrow_tensor(data, offset, rank, sizes, strides, dtype);
  made->storage->nbytes = nbytes;
  return made;
}
void t_free(Tensor tensor) { free_tensor(tensor); }
void t_describe(Tensor tensor, int64_t* text) {
  text[0] = tensor->rank, text[1] = tensor->dtype, text[2] = tensor->offset, text[3] = tensor->storage->nbytes;
  text[4] = reinterpret_cast<int64_t>(tensor->storage->data);
  std::copy(tensor->sizes(), tensor->sizes() + 2 * tensor->rank, text + 5);
}
void t_seed(uint64_t value) { (void)value; SEED }
"""


class NativeError(RuntimeError):
    """An operator failed, with its text."""


@dataclass(frozen=True)
class Operators:
    """A library with operators by name."""

    library: ctypes.CDLL
    schemas: dict[str, ir.OpSchema]

    # Any: arguments and results of any operator
    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls an operator with torch's arguments; returns its results. Raises NativeError.

        `taken` is the number of tensors to take of each list, 0 by default.
        """
        taken = kwargs.pop("taken", ())
        schema, call = self.schemas[name], self._arguments(name, *args, **kwargs)
        types = () if writes_arguments(schema) else [r.type for r in schema.returns]
        lengths = iter(taken)
        counts = [next(lengths, 0) if type == LIST else 1 for type in types]
        count = sum(counts)
        results = (ctypes.c_void_p * max(count, 1))()
        begin = 0
        for type, length in zip(types, counts):
            call.values.append(ctypes.byref(results, begin * ctypes.sizeof(ctypes.c_void_p)))
            if type == LIST:
                call.values.append(ctypes.c_int64(length))
            begin += length
        function = getattr(self.library, f"t_{function_name(name)}")
        try:
            if function(*call.values):
                raise NativeError(_error_text(self.library))
            made = [None if results[i] is None else self._tensor(results[i]) for i in range(count)]
        finally:
            call.release()
        return made[0] if len(made) == 1 and LIST not in types else tuple(made)

    def bound(self, name: str, *args: Any, **kwargs: Any) -> Callable[[], int]:
        """Returns a call of an operator that writes its result, with the same tensors each time."""
        call = self._arguments(name, *args, **kwargs)
        function = getattr(self.library, f"t_{function_name(name)}")
        return lambda: int(function(*call.values))

    def _arguments(self, name: str, *args: Any, **kwargs: Any) -> _Call:
        schema, call = self.schemas[name], _Call(self.library)
        values = dict(zip((a.name for a in schema.args if not a.keyword_only), args)) | kwargs
        for argument in sorted((a for a in schema.args if a.type != "Generator?"), key=is_input):
            value = values[argument.name] if argument.name in values else _default(argument)
            call.add(argument.type, value)
        return call

    def seed(self, value: int) -> None:
        """Sets the state of the random generator, as `torch.manual_seed` does."""
        self.library.t_seed(ctypes.c_uint64(value))

    def _tensor(self, handle: int | None) -> Tensor:
        words = (ctypes.c_int64 * 160)()
        self.library.t_describe(ctypes.c_void_p(handle), words)
        rank, dtype, offset, nbytes, data = words[0], _DTYPES[words[1]], words[2], words[3], words[4]
        sizes, strides = list(words[5 : 5 + rank]), list(words[5 + rank : 5 + 2 * rank])
        text = ctypes.string_at(data, nbytes)
        self.library.t_free(ctypes.c_void_p(handle))
        storage = torch.frombuffer(bytearray(text or b"\0"), dtype=torch.uint8).untyped_storage()
        empty = torch.empty(0, dtype=dtype)
        if offset % empty.element_size():
            raise NativeError("a result that is not aligned")
        with torch.no_grad():
            return empty.set_(storage, offset // empty.element_size(), sizes, strides)


class _Call:
    """The arguments of a call, and what they refer to."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.values: list[Any] = []
        self.alive: list[Any] = []
        self.handles: list[int] = []

    def add(self, type: str, value: Any) -> None:
        base, inner, is_list, optional = parsed(type)
        if base == "Device":
            index = ctypes.c_int32(0)
            self.values += [self._pointer(ctypes.c_int32(0), value) if optional else ctypes.c_int32(0), index]
        elif is_list:
            items = [] if value is None else list(value) if isinstance(value, tuple | list) else [value]
            made = [None if v is None else self._one(base, v) for v in items]
            if inner:
                kept = [None if v is None else ctypes.pointer(v) for v in made]
                self.alive.append(kept)
                addresses = [None if v is None else ctypes.cast(v, ctypes.c_void_p) for v in kept]
                array: Any = (ctypes.c_void_p * max(len(made), 1))(*addresses)
            else:
                array = (self._c_type(base) * max(len(made), 1))(*[v.value for v in made if v is not None])
            self.alive += [made, array]
            pointer = ctypes.cast(array, ctypes.c_void_p)
            self.values += [
                self._pointer(pointer, value) if optional else pointer,
                ctypes.c_int64(len(items)),
            ]
        elif base == "str":
            text = ctypes.c_char_p(None if value is None else str(value).encode())
            self.values.append(self._pointer(text, value) if optional else text)
        elif optional:
            self.values.append(None if value is None else self._pointer(self._one(base, value), value))
        else:
            self.values.append(self._one(base, value))

    def _pointer(self, item: Any, value: Any) -> Any:
        if value is None:
            return None
        self.alive.append(item)
        return ctypes.byref(item)

    def _c_type(self, base: str) -> Any:
        return {
            "Tensor": ctypes.c_void_p, "int": ctypes.c_int64, "SymInt": ctypes.c_int64, "bool": ctypes.c_int32,
            "float": ctypes.c_double, "Scalar": ctypes.c_double,
        }.get(base, ctypes.c_int32)  # fmt: skip

    def _one(self, base: str, value: Any) -> Any:
        if base == "Tensor":
            return self._handle(value if isinstance(value, Tensor) else torch.tensor(value))
        if isinstance(value, torch.dtype):
            value = _CODES[value]
        elif isinstance(value, torch.memory_format):
            value = _FORMATS[value]
        elif isinstance(value, torch.layout):
            value = 0
        if isinstance(value, complex):
            raise NativeError("complex numbers have no parameter")
        return self._c_type(base)(value)

    def _handle(self, tensor: Tensor) -> ctypes.c_void_p:
        self.alive.append(tensor)
        rank = tensor.dim()
        sizes = (ctypes.c_int64 * max(rank, 1))(*tensor.size())
        strides = (ctypes.c_int64 * max(rank, 1))(*tensor.stride())
        storage = tensor.untyped_storage()
        self.library.t_tensor.restype = ctypes.c_void_p
        made = self.library.t_tensor(
            ctypes.c_void_p(storage.data_ptr()), ctypes.c_int64(storage.nbytes()),
            ctypes.c_int64(int(tensor.storage_offset())), ctypes.c_int64(rank), sizes, strides, ctypes.c_int32(_CODES[tensor.dtype]),
        )  # fmt: skip
        self.handles.append(made)
        return ctypes.c_void_p(made)

    def release(self) -> None:
        for handle in self.handles:
            self.library.t_free(ctypes.c_void_p(handle))


def _error_text(library: ctypes.CDLL) -> str:
    library.t_error.restype = ctypes.c_char_p
    text: bytes = library.t_error()
    return text.decode()


def _default(argument: ir.SchemaArg) -> Any:
    text = argument.default
    if text in (None, "None"):
        return None
    if text in ("long", "contiguous_format"):
        return torch.int64 if text == "long" else torch.contiguous_format
    if text in ("True", "False"):
        return text == "True"
    if text.startswith(('"', "'")):
        return text[1:-1]
    if text == "[]":
        return []
    if text.startswith("["):
        return [int(t) for t in text[1:-1].split(",")]
    return float(text) if "." in text or "e" in text else int(text)


def function_name(name: str) -> str:
    """`sum_dim_IntList` of `aten::sum.dim_IntList`."""
    return name.partition("::")[2].replace(".", "_")


def read_schemas(families: Sequence[str]) -> Iterator[ir.OpSchema]:
    """The schemas in the tables of some families."""
    for family in families:
        for line in (_OPERATORS / f"{family}.txt").read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                yield ir.parse_schema(line)


def c_parameters(schema: ir.OpSchema) -> str:
    """C parameters of an operator; a generator, which no program passes, has none."""
    return c_signature(replace(schema, args=tuple(a for a in schema.args if a.type != "Generator?")))


def _wrapper(schema: ir.OpSchema) -> str:
    name, parameters = function_name(schema.name), c_parameters(schema)
    names = ", ".join(text.rpartition(" ")[2] for text in parameters.split(", "))
    return f"""
WIR_OPERATOR({name})({parameters});
extern "C" int32_t t_{name}({parameters}) {{
  try {{ return wir_op_{name}({names}); }} catch (const std::exception& caught) {{ error = caught.what(); return 1; }}
}}"""


@lru_cache
def build_operators(families: tuple[str, ...], folder: str, options: tuple[str, ...] = ()) -> Operators:
    """Compiles families and their support; objects are reused while the text is the same."""
    schemas = {schema.name: schema for schema in read_schemas(families)}
    build = Path(folder)
    build.mkdir(parents=True, exist_ok=True)
    seed = "set_random_seed(value);" if "random" in families else ""
    head = '#include "random.h"\n' if seed else ""
    support = head + _SUPPORT.replace("SEED", seed) + "}\n" + "\n".join(map(_wrapper, schemas.values()))
    (build / "calls.cpp").write_text(support, encoding="utf-8")
    for source in (_INTERFACE, _SHARED, _NATIVE, _OPERATORS, _VECTORS):  # later files replace earlier ones
        for path in source.iterdir():
            if path.suffix in (".h", ".cpp"):
                text = path.read_bytes()
                if not (build / path.name).exists() or (build / path.name).read_bytes() != text:
                    (build / path.name).write_bytes(text)
    (build / UNIT).write_text(unit_text(NATIVE_RUNTIME), encoding="utf-8")
    names = ("calls.cpp", UNIT, *operator_files(families, ()))
    objects = [_compile(build / name, build, options) for name in names]
    library = build / f"operators-{hashlib.sha256(' '.join(map(str, objects)).encode()).hexdigest()[:16]}.so"
    if not library.exists():
        subprocess.run([_compiler(), "-shared", *options, "-o", str(library), *map(str, objects)], check=True)
    return Operators(ctypes.CDLL(str(library)), schemas)


def _compiler() -> str:
    return shutil.which("g++") or "g++"


def _compile(source: Path, build: Path, options: Sequence[str]) -> Path:
    command = [_compiler(), *_FLAGS, *options, "-c", str(source)]
    text = " ".join(command).encode() + source.read_bytes()
    text += b"".join(path.read_bytes() for path in sorted(build.glob("*.h")))
    made = build / f"{source.stem}-{hashlib.sha256(text).hexdigest()[:16]}.o"
    if not made.exists():
        subprocess.run([*command, "-o", str(made)], check=True)
    return made
