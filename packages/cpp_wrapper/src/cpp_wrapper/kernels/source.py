"""Translation units: one for a kernel, or one for many.

The headers that every kernel includes take ten times as long to read as a kernel takes to compile, so kernels share
units. In a shared unit each kernel stands in a namespace of its own, and its entry, which as `extern "C"` ignores
namespaces, is renamed by a macro. Sources that this could break (preprocessor state, late includes) stand alone, and
so does every kernel of a unit that the compiler refuses: then the message is about that kernel and nothing else.

Each kernel gets a *trampoline*, `void symbol(const Slot*)`, which unpacks a flat array into the entry's own parameter
types. Static assertions hold the definition's parameters against the entry's.

Exceptions in parallel regions of a kernel are thrown again after them (`parallel.py`).

Torch's header fills a table of reciprocals for variances when a library is loaded, by code that was compiled for the unit's
instructions, which the processor may lack. Here it is filled before the first kernel that reads it runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cpp_wrapper.errors import KernelError
from cpp_wrapper.kernels.parallel import CAUGHT, contained, is_changed
from wrapper_ir import ir
from wrapper_ir.support.quoting import cpp_message

SCALAR_DTYPES = frozenset(
    {
        *(ir.DType.F64, ir.DType.F32, ir.DType.I64, ir.DType.I32, ir.DType.I16, ir.DType.I8),
        *(ir.DType.U64, ir.DType.U32, ir.DType.U16, ir.DType.U8, ir.DType.BOOL),
    }
)
"""What may be passed by value."""

_GROUP_BYTES = 128 * 1024
"""A second unit pays off once kernels of this many bytes take as long to compile as the headers."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!pragma[ \t]+(?:omp|GCC[ \t]+(?:ivdep|unroll)|unroll)\b)\S")

_TABLE = re.compile(
    r"\bWelfordHelper<((?:float|double|at::vec::Vectorized<(?:float|double)>|at::vec::VectorizedN<(?:float|double), ?\d+>)), ?(\d+)>"
)
"""A type of torch's that has a table, and the number of its entries."""
_TABLE_HEADER = "torch/csrc/inductor/cpp_prefix.h"
_FILL = """\
namespace wrapper_ir_launch {
template <class Helper, std::size_t kCount> void fill_reciprocals() {
  [[maybe_unused]] static const bool is_filled = [] {
    std::remove_reference_t<decltype(Helper::weight_recps)> made(kCount);
    using Element = typename decltype(made)::value_type;
    for (std::size_t i = 0; i < kCount; ++i) made[i] = static_cast<Element>(1.0 / static_cast<double>(i + 1));
    Helper::weight_recps.swap(made);
    return true;
  }();
}
}  // namespace wrapper_ir_launch
"""

_PRELUDE = """\
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
namespace wrapper_ir_launch {
union Slot { void* p; std::int64_t i; double d; };
template <class T> T take(const Slot& slot) {
  if constexpr (std::is_pointer_v<T>) return static_cast<T>(slot.p);
  else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(slot.d);
  else return static_cast<T>(slot.i);
}
template <class F> struct Entry;
template <class... A> struct Entry<void(A...)> {
  static constexpr std::size_t count = sizeof...(A);
  template <std::size_t I> using At = std::tuple_element_t<I, std::tuple<A...>>;
  template <std::size_t... I> static void call(void (*entry)(A...), const Slot* slots, std::index_sequence<I...>) {
    entry(take<std::remove_cv_t<A>>(slots[I])...);
  }
};
template <class T, std::size_t kSize, bool kWrites> constexpr bool pointer_fits() {
  using E = std::remove_pointer_t<T>;
  if constexpr (!std::is_pointer_v<T>) return false;
  else if constexpr (std::is_void_v<E>) return !(kWrites && std::is_const_v<E>);
  else return sizeof(E) == kSize && !(kWrites && std::is_const_v<E>);
}
template <class T, std::size_t kSize, bool kFloat> constexpr bool scalar_fits() {
  if constexpr (!std::is_arithmetic_v<T>) return false;
  else return sizeof(T) == kSize && std::is_floating_point_v<T> == kFloat;
}
}  // namespace wrapper_ir_launch
"""


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel to build and its key in the cache (a hexadecimal hash)."""

    key: str
    kernel: ir.CppKernel

    @property
    def symbol(self) -> str:
        """The name of its trampoline."""
        return f"wir_{self.key[:40]}"

    @property
    def tables(self) -> tuple[tuple[str, str], ...]:
        """The types whose tables it reads, and their lengths: once each, where torch's header is included at its head."""
        if not any(_TABLE_HEADER in line for line in leading_includes(self.kernel.source)):
            return ()
        return tuple(dict.fromkeys(_TABLE.findall(self.kernel.source)))


def check_kernel(kernel: ir.CppKernel) -> None:
    """Raises KernelError CPP401 for a definition that no compiler run could make loadable."""
    if not _IDENTIFIER.match(kernel.entry):
        raise KernelError("CPP401", f"kernel '{kernel.name}': entry '{kernel.entry}' is not a C identifier")
    for param in kernel.params:
        if param.kind is ir.ParamKind.SCALAR and param.dtype not in SCALAR_DTYPES:
            raise KernelError(
                "CPP401",
                f"kernel '{kernel.name}': parameter '{param.name}' passes {param.dtype.value} by value",
                "pass it through a pointer, or as f32 or f64",
            )


def groups(members: Sequence[Member], jobs: int) -> list[list[Member]]:
    """Splits kernels into at most `jobs` balanced units, no more than pay for reading the headers again.

    Kernels that must stand alone come as lists of one.
    """
    alone = [[m] for m in members if not is_shareable(m.kernel.source)]
    shared = sorted((m for m in members if is_shareable(m.kernel.source)), key=_size, reverse=True)
    count = max(1, min(jobs, sum(map(_size, shared)) // _GROUP_BYTES))
    units: list[list[Member]] = [[] for _ in range(count)]
    for member in shared:
        min(units, key=lambda unit: sum(map(_size, unit))).append(member)
    return [unit for unit in units if unit] + alone


def single_unit(member: Member) -> str:
    """A unit with one kernel outside namespaces. Its entry is renamed after the includes: a library may have several units."""
    kernel = member.kernel
    includes, rest = _split(contained(kernel.source))
    entry = f"{member.symbol}_entry"
    body = (f"#define {kernel.entry} {entry}", _line_mark(kernel), *rest, f"#undef {kernel.entry}")
    return "\n".join((*includes, *_helpers([member]), *body, _PRELUDE, _trampoline(member, f"::{entry}")))


def shared_unit(members: Sequence[Member]) -> str:
    """A unit with many kernels: all includes first, then a namespace for each kernel."""
    includes = dict.fromkeys(line.strip() for m in members for line in _split(m.kernel.source)[0])
    return "\n".join((*includes, *_helpers(members), _PRELUDE, *(_namespaced(m) for m in members)))


def _helpers(members: Sequence[Member]) -> list[str]:
    """Definitions that the kernels' text uses."""
    return [*_tables(members), *([CAUGHT] if any(is_changed(m.kernel.source) for m in members) else ())]


def _tables(members: Sequence[Member]) -> list[str]:
    """Definitions of the tables that the kernels read, empty, and what fills them."""
    found = dict.fromkeys(table for m in members for table in m.tables)
    if not found:
        return []
    return [
        *(
            f"template <> inline std::vector<typename GetScalarType<{kind}>::type> WelfordHelper<{kind}, {count}>::weight_recps{{}};"
            for kind, count in found
        ),
        _FILL,
    ]


def leading_includes(source: str) -> tuple[str, ...]:
    """The include lines of a shareable source, in order."""
    return tuple(line.strip() for line in _split(source)[0])


def _size(member: Member) -> int:
    return len(member.kernel.source)


def is_shareable(source: str) -> bool:
    """True where the source's only directives are includes at its head and harmless pragmas."""
    return not any(_DIRECTIVE.match(line) for line in _split(source)[1])


def _split(source: str) -> tuple[list[str], list[str]]:
    """The include lines at the head, and all lines with those blanked (so that line numbers stay)."""
    includes: list[str] = []
    lines = source.removesuffix("\n").split("\n")  # a compiler ends a line nowhere else
    for number, line in enumerate(lines):
        if _INCLUDE.match(line):
            includes.append(line)
            lines[number] = ""
        elif line.strip() and not line.lstrip().startswith("//"):
            break
    return includes, lines


def _namespaced(member: Member) -> str:
    kernel, symbol = member.kernel, member.symbol
    return "\n".join(
        (
            f"#define {kernel.entry} {symbol}_entry",
            f"namespace {symbol}_space {{",
            _line_mark(kernel),
            *_split(contained(kernel.source))[1],
            "}",
            f"#undef {kernel.entry}",
            _trampoline(member, f"{symbol}_space::{symbol}_entry"),
        )
    )


def _line_mark(kernel: ir.CppKernel) -> str:
    """Compiler messages then speak of the kernel's own lines."""
    return f"#line 1 {cpp_message(f'{kernel.name}.cpp')}"


def _trampoline(member: Member, entry: str) -> str:
    kernel, symbol = member.kernel, member.symbol
    kind = f"wrapper_ir_launch::Entry<decltype({entry})>"
    count = len(kernel.params)
    arity = f"the definition has {count} parameters, the entry has another number"
    return "\n".join(
        (
            f"#line 1 {cpp_message(f'{kernel.name} (definition)')}",
            f'static_assert({kind}::count == {count}, "{arity}");',
            *(_assertion(kind, i, param) for i, param in enumerate(kernel.params)),
            'extern "C" __attribute__((visibility("default")))',
            f"void {symbol}(const wrapper_ir_launch::Slot* slots) {{",
            *(
                f"  wrapper_ir_launch::fill_reciprocals<WelfordHelper<{t}, {n}>, {n}>();"
                for t, n in member.tables
            ),
            f"  {kind}::call(&{entry}, slots, std::make_index_sequence<{kind}::count>{{}});",
            "}",
        )
    )


def _assertion(entry_kind: str, index: int, param: ir.KernelParam) -> str:
    at = f"{entry_kind}::At<{index}>"
    size = param.dtype.itemsize
    if param.kind is ir.ParamKind.POINTER:
        test = f"pointer_fits<{at}, {size}, {str(param.access.writes).lower()}>"
        what = f"{param.access.value} {param.dtype.value}*"
    else:
        test = f"scalar_fits<std::remove_cv_t<{at}>, {size}, {str(param.dtype.is_floating).lower()}>"
        what = param.dtype.value
    message = f"parameter {index} '{param.name}' is {what} in the definition, not in the entry"
    return f"static_assert(wrapper_ir_launch::{test}(), {cpp_message(message)});"
