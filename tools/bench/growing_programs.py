"""Families of programs that grow in one way each, as text.

Superlinear time in one of them shows as growth of its row. `bench_ir_scale` measures them, and tests count
their work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

_EXTERN = 'extern "demo::same(Tensor(a) self) -> Tensor(a)"'


def _function(name: str, params: Sequence[str], body: Sequence[str], result: str, tail: str = "") -> str:
    lines = "".join(f"  {line}\n" for line in (*body, f"return {result}"))
    return f"func @{name}({', '.join(params)}){tail} {{\n{lines}}}\n"


def _program(functions: Sequence[str], symbols: int = 0, declared: Sequence[str] = ()) -> str:
    lines = [f"symbol s{n} : int backed [2, 64] hint 8" for n in range(symbols)]
    return "\n".join(("wir 0.5", "target cpu", *lines, *declared, _EXTERN, *functions))


def _kernel(name: str, params: Sequence[str]) -> str:
    return f'kernel cpp @{name} entry "kernel" ({", ".join(params)}) "// empty"'


def _inputs(symbols: int) -> tuple[list[str], list[str]]:
    """Parameters, and ops that define a symbol by each."""
    params = [f"%x{n}: f32[s{n}]" for n in range(symbols)]
    return params, [f"define s{n} = size(%x{n}, 0)" for n in range(symbols)]


def product_of_sums(n: int) -> str:
    """Two slots of a pool whose sizes are a multiplication of `n` sums."""
    params, defines = _inputs(2 * n)
    product = "*".join(f"(2*s{2 * k} + 3*s{2 * k + 1} - 1)" for k in range(n))
    body = [
        *defines,
        f"%p = alloc_storage 64*{product} pool",
        f"%a = slot %p : 32*{product}",
        f"%b = slot %p + 32*{product} : 32*{product}",
        "free %a",
        "free %b",
        "free %p",
    ]
    return _program([_function("main", params, body, "%x0")], 2 * n)


def symbolic_slots(n: int) -> str:
    """`n` slots of one symbolic pool, which are there at once."""
    params, defines = _inputs(1)
    body = [*defines, f"%p = alloc_storage {64 * n}*s0 pool"]
    for k in range(n):
        body += [
            f"%s{k} = slot %p + {64 * k}*s0 : 64*s0",
            f"%v{k} = view %s{k} : f32[s0]",
            f"copy %v{k}, %x0",
        ]
    body += [f"copy %x0, %v{k}" for k in range(n)]
    body += [*(f"free %s{k}" for k in range(n)), "free %p"]
    return _program([_function("main", params, body, "%x0")], 1)


def alias_calls(n: int) -> str:
    """`n` calls of an operator whose result shares bytes with its argument, one on the other."""
    body = [f"%y{k + 1} = call demo::same(%y{k}) : f32[8]" for k in range(n)]
    return _program([_function("main", ["%y0: f32[8]"], body, f"%y{n}")])


def switches(n: int) -> str:
    """`n` switches, each over the result of the previous one."""
    body = [f"%y{k + 1} = cond %p then @f else @g (%y{k}) : f32[8]" for k in range(n)]
    lines = ["%y = alloc f32[8]", "copy %y, %x"]
    functions = [_function("main", ["%y0: f32[8]", "%p: bool"], body, f"%y{n}")]
    return _program([*functions, *(_function(name, ["%x: f32[8]"], lines, "%y") for name in "fg")])


def aligned(n: int) -> str:
    """`n` values, each of which is the one before or a copy of it."""
    body = [f"%y{k + 1} = ensure_aligned %y{k}, 16" for k in range(n)]
    return _program([_function("main", ["%y0: f32[8]"], body, f"%y{n}")])


def aliasing_switches(n: int) -> str:
    """`n` switches, each of which creates a tensor or returns the previous result."""
    body = [f"%y{k + 1} = cond %p then @f else @g (%y{k}) : f32[8]" for k in range(n)]
    functions = [
        _function("main", ["%y0: f32[8]", "%p: bool"], body, f"%y{n}"),
        _function("f", ["%x: f32[8]"], ["%y = alloc f32[8]", "copy %y, %x"], "%y"),
        _function("g", ["%x: f32[8]"], [], "%x"),
    ]
    return _program(functions)


def wide_switch(n: int) -> str:
    """A switch of `n` arguments and `n` results.

    One branch creates these, the other returns its arguments.
    """
    params = [f"%x{k}: f32[8]" for k in range(n)]
    results, types = ", ".join(f"%y{k}" for k in range(n)), ", ".join(["f32[8]"] * n)
    arguments = ", ".join(f"%x{k}" for k in range(n))
    body = [f"{results} = cond %p then @f else @g ({arguments}) : {types}"]
    copies = [line for k in range(n) for line in (f"%y{k} = alloc f32[8]", f"copy %y{k}, %x{k}")]
    functions = [
        _function("main", [*params, "%p: bool"], body, "%y0"),
        _function("f", params, copies, results),
        _function("g", params, [], arguments),
    ]
    return _program(functions)


def call_tree(n: int) -> str:
    """`n` functions, each of which calls the next one twice."""
    functions = []
    for k in range(n):
        body = [
            "%t = alloc f32[8]",
            "copy %t, %x",
            f"%y = call_subgraph @f{k + 1}(%t) : f32[8]",
            f"%z = call_subgraph @f{k + 1}(%y) : f32[8]",
        ]
        functions.append(_function(f"f{k}" if k else "main", ["%x: f32[8]"], body, "%z"))
    last = _function(f"f{n}", ["%x: f32[8]"], ["%y = alloc f32[8]", "copy %y, %x"], "%y")
    return _program([*functions, last])


def guards(n: int) -> str:
    """`n` guards on one symbol and another, and a window that is in bounds by each."""
    params, defines = _inputs(n + 1)
    body = [f"assert s0 <= s{k}" for k in range(1, n + 1)]
    body += [f"%v{k} = view %x{k} : f32[s0]" for k in range(1, n + 1)]
    return _program([_function("main", params, [*defines, *body], "%x0")], n + 1)


def windows(n: int) -> str:
    """`n` windows of one buffer, each of which is written and read."""
    body = [f"%y = alloc f32[{8 * n}]"]
    for k in range(n):
        body += [f"%v{k} = view %y + {32 * k} : f32[8]", f"copy %v{k}, %x"]
    body += [f"copy %x, %v{k}" for k in range(n)]
    return _program([_function("main", ["%x: f32[8]"], body, "%y")])


def symbolic_windows(n: int) -> str:
    """`n` windows of one buffer of a symbolic size."""
    params, defines = _inputs(1)
    body = [*defines, f"%y = alloc f32[{n}*s0]"]
    for k in range(n):
        body += [f"%v{k} = view %y + {4 * k}*s0 : f32[s0]", f"copy %v{k}, %x0"]
    body += [f"copy %x0, %v{k}" for k in range(n)]
    return _program([_function("main", params, body, "%y")], 1)


def call_chain(n: int) -> str:
    """`n` functions, each of which calls the next one."""
    functions = []
    for k in range(n):
        body = ["%t = alloc f32[8]", "copy %t, %x", f"%y = call_subgraph @f{k + 1}(%t) : f32[8]"]
        functions.append(_function(f"f{k}" if k else "main", ["%x: f32[8]"], body, "%y"))
    last = _function(f"f{n}", ["%x: f32[8]"], ["%y = alloc f32[8]", "copy %y, %x"], "%y")
    return _program([*functions, last])


def regions(n: int) -> str:
    """`n` scopes, one after the other."""
    body = [line for k in range(n) for line in (f'enter_profile "region {k}" "test"', "exit_scope")]
    return _program([_function("main", ["%x: f32[8]"], body, "%x")])


def kernels(n: int) -> str:
    """`n` kernels, each launched on what the one before filled."""
    body = []
    for k in range(n):
        body += [f"%y{k + 1} = alloc f32[8]", f"launch @k{k}(%y{k}, %y{k + 1})"]
    declared = [_kernel(f"k{k}", ("read f32* a", "write f32* b")) for k in range(n)]
    return _program([_function("main", ["%y0: f32[8]"], body, f"%y{n}")], declared=declared)


def symbols(n: int) -> str:
    """`n` inputs of `n` symbolic sizes, and a buffer for each."""
    params, body = _inputs(n)
    for k in range(n):
        body += [f"%y{k} = alloc f32[s{k}]", f"copy %y{k}, %x{k}"]
    return _program([_function("main", params, body, f"%y{n - 1}")], n)


def constants(n: int) -> str:
    """`n` constants, each read by a launch."""
    body = []
    for k in range(n):
        body += [f"%y{k + 1} = alloc f32[8]", f"launch @k(%y{k}, %c{k}, %y{k + 1})"]
    declared = [f"const %c{k} : f32[8]" for k in range(n)]
    declared += [_kernel("k", ("read f32* a", "read f32* b", "write f32* c"))]
    return _program([_function("main", ["%y0: f32[8]"], body, f"%y{n}")], declared=declared)


def long_sum(n: int) -> str:
    """A size that is a sum of `n` products of `n` symbols."""
    params, defines = _inputs(n)
    total = " + ".join(f"s{k}*s{(k + 1) % n}" for k in range(n))
    body = [*defines, f"define t = {total}", "%y = alloc f32[t]", "free %y.s"]
    return _program([_function("main", params, body, "%x0")], n, ["symbol t : int backed [0, *]"])


def outputs(n: int) -> str:
    """`n` results."""
    body = [line for k in range(n) for line in (f"%y{k} = alloc f32[8]", f"copy %y{k}, %x")]
    return _program([_function("main", ["%x: f32[8]"], body, ", ".join(f"%y{k}" for k in range(n)))])


def wide_launch(n: int) -> str:
    """A launch that reads `n` inputs and fills `n` windows of a buffer."""
    params = [f"%x{k}: f32[{k + 1}]" for k in range(n)]
    body = [f"%y = alloc f32[{8 * n}]"]
    body += [f"%y{k} = view %y + {32 * k} : f32[8]" for k in range(n)]
    given = [*(f"%x{k}" for k in range(n)), *(f"%y{k}" for k in range(n))]
    body += [f"launch @k({', '.join(given)})"]
    declared = _kernel("k", [*(f"read f32* a{k}" for k in range(n)), *(f"write f32* b{k}" for k in range(n))])
    return _program([_function("main", params, body, "%y")], declared=[declared])


FAMILIES: Mapping[str, tuple[Callable[[int], str], int]] = MappingProxyType(
    {
        "product of sums": (product_of_sums, 8),
        "symbolic slots": (symbolic_slots, 200),
        "alias calls": (alias_calls, 400),
        "switches": (switches, 100),
        "aligned": (aligned, 400),
        "aliasing switches": (aliasing_switches, 200),
        "wide switch": (wide_switch, 200),
        "call tree": (call_tree, 8),
        "call chain": (call_chain, 100),
        "guards": (guards, 100),
        "windows": (windows, 400),
        "symbolic windows": (symbolic_windows, 200),
        "regions": (regions, 400),
        "kernels": (kernels, 400),
        "symbols": (symbols, 200),
        "constants": (constants, 400),
        "long sum": (long_sum, 50),
        "outputs": (outputs, 400),
        "wide launch": (wide_launch, 100),
    }
)
"""By name, a program of a number of parts, and the number of parts to begin with."""
NO_SIZES = frozenset({"product of sums"})
"""Families whose bytes under the hints are no int64: there is no memory to tell."""
