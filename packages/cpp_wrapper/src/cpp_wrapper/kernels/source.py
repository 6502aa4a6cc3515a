"""Translation units of one or many kernels.

Reading the headers that every kernel includes takes ten times as long as compiling a kernel, so kernels share
units. In a shared unit each kernel has a namespace. Its entry, which as `extern "C"` ignores namespaces, is
renamed by a macro. Sources that this could break (preprocessor state, late includes) have separate units. So
does every kernel of a unit that the compiler refuses: the message is then about that kernel alone.

Each kernel gets a *trampoline*, `void symbol(const Slot*)`, which unpacks a flat array into the entry's
parameter types. Static assertions compare the definition's parameters with the entry's.

Exceptions in parallel regions of a kernel are rethrown after the region (`parallel.py`).

Torch's header fills a table of reciprocals for variances when a library is loaded. That code uses the unit's
instruction set, which the processor may lack. The unit instead fills the table before the first kernel that
reads it.
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
"""Element types that can be passed by value."""

_GROUP_BYTES = 128 * 1024
"""A second unit pays off once kernels of this many bytes take as long to compile as the headers."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!pragma[ \t]+(?:omp|GCC[ \t]+(?:ivdep|unroll)|unroll)\b)\S")

_TABLE = re.compile(
    r"\bWelfordHelper<("
    r"(?:float|double|at::vec::Vectorized<(?:float|double)>|at::vec::VectorizedN<(?:float|double), ?\d+>)"
    r"), ?(\d+)>"
)
"""A torch type with a table, and the number of its entries."""
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
  template <std::size_t... I>
  static void call(void (*entry)(A...), const Slot* slots, std::index_sequence<I...>) {
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
        """The types whose tables it reads, and their lengths, without duplicates.

        Empty unless torch's header is among the leading includes.
        """
        if not any(_TABLE_HEADER in line for line in leading_includes(self.kernel.source)):
            return ()
        return tuple(dict.fromkeys(_TABLE.findall(self.kernel.source)))


def check_kernel(kernel: ir.CppKernel) -> None:
    """Raises KernelError CPP401 for a definition that can never be loaded."""
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
    """Splits kernels into at most `jobs` balanced units, each large enough to pay for reading the headers
    again.

    A kernel that cannot share a unit is a list of one.
    """
    alone = [[m] for m in members if not is_shareable(m.kernel.source)]
    shared = sorted((m for m in members if is_shareable(m.kernel.source)), key=_size, reverse=True)
    count = max(1, min(jobs, sum(map(_size, shared)) // _GROUP_BYTES))
    units: list[list[Member]] = [[] for _ in range(count)]
    for member in shared:
        min(units, key=lambda unit: sum(map(_size, unit))).append(member)
    return [unit for unit in units if unit] + alone


def single_unit(member: Member) -> str:
    """Returns a unit with one kernel outside namespaces.

    Its entry is renamed after the includes, since a library may have several units.
    """
    kernel = member.kernel
    includes, rest = _split(contained(kernel.source))
    entry = f"{member.symbol}_entry"
    body = (f"#define {kernel.entry} {entry}", _line_mark(kernel), *rest, f"#undef {kernel.entry}")
    return "\n".join((*includes, *_helpers([member]), *body, _PRELUDE, _trampoline(member, f"::{entry}")))


def shared_unit(members: Sequence[Member]) -> str:
    """Returns a unit with many kernels: all includes, then a namespace for each kernel."""
    includes = dict.fromkeys(line.strip() for m in members for line in _split(m.kernel.source)[0])
    return "\n".join((*includes, *_helpers(members), _PRELUDE, *(_namespaced(m) for m in members)))


def _helpers(members: Sequence[Member]) -> list[str]:
    """Returns the definitions that the kernels' text uses."""
    return [*_tables(members), *([CAUGHT] if any(is_changed(m.kernel.source) for m in members) else ())]


def _tables(members: Sequence[Member]) -> list[str]:
    """Returns definitions of the empty tables that the kernels read, and of the function that fills them."""
    tables = dict.fromkeys(table for m in members for table in m.tables)
    if not tables:
        return []
    return [
        *(
            f"template <> inline std::vector<typename GetScalarType<{kind}>::type> "
            f"WelfordHelper<{kind}, {count}>::weight_recps{{}};"
            for kind, count in tables
        ),
        _FILL,
    ]


def leading_includes(source: str) -> tuple[str, ...]:
    """Returns the include lines of a shareable source, in order."""
    return tuple(line.strip() for line in _split(source)[0])


def _size(member: Member) -> int:
    return len(member.kernel.source)


def is_shareable(source: str) -> bool:
    """Returns whether the source's only directives are leading includes and harmless pragmas."""
    return not any(_DIRECTIVE.match(line) for line in _split(source)[1])


def _split(source: str) -> tuple[list[str], list[str]]:
    """Returns the leading include lines, and all lines with those blanked (line numbers stay the same)."""
    includes: list[str] = []
    lines = source.removesuffix("\n").split("\n")  # compilers recognise no other line breaks
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
    """Returns a directive by which compiler messages name the kernel's lines."""
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
