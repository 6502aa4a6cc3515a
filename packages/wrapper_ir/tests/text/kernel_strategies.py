"""Random kernels of every kind, valid or not: anything with a text form."""

from __future__ import annotations

from hypothesis import strategies as st

from wrapper_ir import ir
from wrapper_ir.expr import Int, Sym
from wrapper_ir.expr import operators as ops

strings = st.text(max_size=8) | st.sampled_from(["", "}}}", '"', "\\", "\n", "a b", "#1", "\ud800"])
names = st.sampled_from(["x", "buf0", "a.b", "0", "then", "none", "f32"]) | strings
ints = st.integers(-3, 40) | st.integers()

_meta_names = st.sampled_from(["XBLOCK", "BLOCK_M", "xnumel", "_k"])
_grids = st.lists(
    ints.map(Int) | st.builds(lambda n, d: ops.CEILDIV(Sym(n), d), _meta_names, _meta_names.map(Sym)),
    max_size=3,
).map(tuple)
_params = st.builds(
    ir.KernelParam,
    name=names,
    kind=st.sampled_from(ir.ParamKind),
    dtype=st.sampled_from(ir.DType),
    access=st.sampled_from(ir.Access),
    may_alias=st.lists(names, max_size=2).map(tuple),
    may_overlap=st.lists(names, max_size=2).map(tuple),
    divisible=st.just(1) | ints,
    block=_grids,
)
_sources = strings | st.lists(
    st.sampled_from(["int x;", "}}}", "}}}}", "}}} ", "  }}}", "{{{", "#1", '"', "\t// é", "provenance"])
).map("\n".join)
_constants = (
    st.none() | st.booleans() | ints | st.floats(allow_nan=False) | strings | st.sampled_from(ir.DType)
)
_with_tuples = _constants | st.lists(_constants, max_size=3).map(tuple)
_named = st.lists(st.tuples(names, _with_tuples), max_size=2).map(tuple)
configs = st.builds(
    ir.TritonConfig, meta=_named, num_warps=ints, num_stages=ints, options=_named, grid=_grids
)
_positions = st.lists(ints, max_size=3).map(tuple)
_variants = st.builds(
    ir.Variant,
    kernel=names,
    args=_positions,
    grid=_positions,
    hints=st.lists(st.lists(st.none() | ints, max_size=2).map(tuple), max_size=2).map(tuple),
)
_cpp_sources = st.builds(ir.CppSource, source=_sources, isa=st.lists(strings, max_size=2).map(tuple))
_requires = st.lists(st.builds(ir.Requirement, name=strings, origin=strings, sha256=strings), max_size=2).map(
    tuple
)
kernels: st.SearchStrategy[ir.KernelDef] = (
    st.builds(
        ir.CppKernel,
        name=names,
        params=st.lists(_params, max_size=3).map(tuple),
        source=_sources,
        entry=strings,
        isa=st.lists(strings, max_size=2).map(tuple),
        variants=st.lists(_cpp_sources, max_size=2).map(tuple),
        requires=_requires,
    )
    | st.builds(
        ir.ForeignKernel,
        name=names,
        params=st.lists(_params, max_size=3).map(tuple),
        runtime=strings,
        payload=_sources,
    )
    | st.builds(
        ir.OperatorKernel,
        name=names,
        params=st.lists(_params, max_size=3).map(tuple),
        schema=strings,
        constants=st.lists(
            st.tuples(names, _constants | st.lists(ints, max_size=2).map(tuple)), max_size=2
        ).map(tuple),
    )
    | st.builds(
        ir.TritonKernel,
        name=names,
        params=st.lists(_params, max_size=3).map(tuple),
        source=_sources,
        entry=strings,
        order=st.lists(names, max_size=3).map(tuple),
        configs=st.lists(configs, max_size=3).map(tuple),
        grid=_grids,
        grid_params=st.lists(names, max_size=2).map(tuple),
        constants=_named,
        derive=st.lists(st.sampled_from(ir.Derivation), max_size=2).map(tuple),
        options=_named,
        restore=st.lists(names, max_size=2).map(tuple),
        reset=st.lists(names, max_size=2).map(tuple),
        size_hints=st.lists(st.tuples(names, ints), max_size=2).map(tuple),
        heuristic=strings,
        cooperative=st.booleans(),
        multiprocessors=st.none() | ints,
        requires=_requires,
    )
) | st.builds(
    ir.MultiKernel,
    name=names,
    params=st.lists(_params, max_size=3).map(tuple),
    variants=st.lists(_variants, max_size=3).map(tuple),
    choice=st.sampled_from(ir.Choice),
    grid_params=st.lists(names, max_size=2).map(tuple),
)
