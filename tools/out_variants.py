"""Finds torch's operators with a variant that writes into a given tensor and allocates no result.

Usage: `python -m tools.out_variants`. Prints the table of `wrapper_ir_passes.memory.out_variants` (some 5
minutes): an operator with one result, and the overload with an argument `out` and otherwise the same
arguments. torch generates some variants from the allocating operator and a copy (tag `generated`); they are
skipped. The others are measured on the samples of torch's own operator database: each must return the same
bits, and request no allocation as large as its result.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

from tests.common.compare import allocated
from wrapper_ir import ir
from wrapper_ir_passes.devices.device_operators import only_device

# Any in this file: overloads, and arguments of any operator
_SAMPLES = 3
_LEAST = 65
"""Bytes that an operator may allocate for itself beside a smaller result."""


def candidates() -> dict[str, str]:
    """The name of the variant, by that of the operator, of those that torch does not generate.

    Without `aten::`.
    """
    variants = {}
    overloads = list(_overloads())
    by_arguments = {_arguments(out, drop="out"): out for out in overloads if _writes_out(out)}
    for overload in overloads:
        schema = ir.parse_schema(str(overload._schema))
        makes_one = [(r.type, r.aliases) for r in schema.returns] == [("Tensor", frozenset())]
        known_sizes = torch.Tag.dynamic_output_shape not in overload.tags
        variant = by_arguments.get(_arguments(overload)) if makes_one and known_sizes else None
        if (
            variant is not None
            and not any(a.written for a in schema.args)
            and not only_device(variant.name())
        ):
            variants[_name(overload)] = _name(variant)
    return dict(sorted(variants.items()))


def _overloads() -> Iterator[Any]:
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        if namespace == "aten":
            packet, _, overload = rest.partition(".")
            try:
                yield getattr(getattr(torch.ops.aten, packet), overload or "default")
            except AttributeError:  # of a build without them
                continue


def _name(overload: Any) -> str:
    return str(overload.name()).removeprefix("aten::")


def _writes_out(overload: Any) -> bool:
    outputs = [a for a in ir.parse_schema(str(overload._schema)).args if a.written]
    return (
        [a.name for a in outputs] == ["out"]
        and outputs[0].keyword_only
        and outputs[0].type == "Tensor"
        and torch.Tag.generated not in overload.tags
    )


def _arguments(overload: Any, drop: str = "") -> tuple[Any, ...]:
    """The operator, and its arguments with their defaults."""
    args = ir.parse_schema(str(overload._schema)).args
    arguments = [(a.name, a.type, a.keyword_only, a.default) for a in args if a.name != drop]
    return overload.overloadpacket, *arguments


class _Recorder(TorchDispatchMode):
    """Compares the first few calls of candidates with their variants."""

    def __init__(self, variants: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves these three so
        self.variants = variants
        self.right: dict[str, bool] = {}
        self.count: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        result = func(*args, **kwargs)
        name = _name(func)
        is_candidate = name in self.variants and self.count.get(name, 0) < _SAMPLES
        if is_candidate and isinstance(result, Tensor) and result.numel() and result.layout is torch.strided:
            self.count[name] = self.count.get(name, 0) + 1
            packet, _, overload = self.variants[name].partition(".")
            variant = getattr(getattr(torch.ops.aten, packet), overload)
            with torch.utils._python_dispatch._disable_current_modes():
                self.right[name] = self.right.get(name, True) and _is_right(variant, args, kwargs, result)
        return result


def _is_right(variant: Any, args: Any, kwargs: Any, result: Tensor) -> bool:
    out = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype)
    need = result.numel() * result.element_size()
    largest = max(allocated(lambda: variant(*args, **kwargs, out=out)), default=0)
    same = out.stride() == result.stride() and torch.equal(out.nan_to_num(), result.nan_to_num())
    return same and largest < max(need, _LEAST)


def row(name: str, variant: str) -> str:
    """Returns the operator, and the overload if it is not `out`."""
    overload = variant.partition(".")[2]
    return name if overload == "out" else f"{name}:{overload}"


def main() -> None:
    """Measures and prints."""
    variants = candidates()
    recorder = _Recorder(variants)
    warnings.simplefilter("ignore")
    for info in op_db:
        for dtype in (torch.float32, torch.int64):
            if dtype not in info.supported_dtypes("cpu"):  # type: ignore[no-untyped-call]
                continue
            samples = info.sample_inputs("cpu", dtype)  # type: ignore[no-untyped-call]
            for number, sample in enumerate(samples):
                if number >= _SAMPLES:
                    break
                try:
                    with recorder:
                        info.op(sample.input, *sample.args, **sample.kwargs)
                except Exception:  # a sample that this build does not take
                    continue
    rows = [row(name, variants[name]) for name, right in sorted(recorder.right.items()) if right]
    print(textwrap.fill(" ".join(rows), 108, break_on_hyphens=False))
    wrong = [name for name, right in sorted(recorder.right.items()) if not right]
    print(textwrap.fill(f"# {len(rows)} of {len(variants)}; not: {' '.join(wrong)}", 100))


if __name__ == "__main__":
    main()
