"""Lists torch's operators that allocate only their results on CPUs.

Usage: `python -m tools.operator_temporaries`. Prints the list of
`wrapper_ir_passes.analysis.temporaries.nothing`, measured on the samples of torch's operator database, contiguous
and not (some minutes). Scalars that torch converts to tensors are not counted.
"""

from __future__ import annotations

import gc
import textwrap
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tests.common.compare import temporary_bytes

# Any in this file: overloads, and arguments of any operator
_SAMPLES = 6
_SCALARS = 32
"""Bytes of tensors that torch converts scalars to."""
_LEAST = 200
"""Bytes of the largest tensor of a call, below which a copy could pass for a scalar."""


class Recorder(TorchDispatchMode):
    """Measures the first calls of each operator: their number, and the most bytes beyond operands and results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves these three so
        self.most: dict[str, int] = {}
        self.count: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = str(func.name())
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if self.count.get(name, 0) >= _SAMPLES or not all(map(_is_plain, tensors)):
            return func(*args, **kwargs)
        found: list[Any] = []
        with _disable_current_modes():
            bytes = temporary_bytes(lambda: found.append(func(*args, **kwargs)))
        (result,) = found
        sized = [t for t in (*tensors, *pytree.tree_leaves(result)) if isinstance(t, Tensor)]
        largest = max((t.numel() * t.element_size() for t in sized if _is_plain(t)), default=0)
        if largest >= _LEAST:
            self.count[name] = self.count.get(name, 0) + 1
            self.most[name] = max(self.most.get(name, 0), bytes)
        return result


def _is_plain(t: Tensor) -> bool:
    return t.layout is torch.strided and t.device.type == "cpu" and type(t) is Tensor


def needs_nothing(recorder: Recorder, name: str) -> bool:
    """Returns whether all measured calls of an operator allocated only results."""
    return recorder.most.get(name, _SCALARS + 1) <= _SCALARS


def measure(wanted: Callable[[str], bool] = lambda name: True) -> Recorder:
    """Measures what the entries of torch's database call whose names are wanted."""
    recorder = Recorder()
    gc.freeze()  # each measurement collects: torch's database is large
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in (e for e in op_db if wanted(e.name)):
            for sample in _samples(entry):
                try:
                    with recorder:
                        entry(sample.input, *sample.args, **sample.kwargs)
                except Exception:  # samples that this build of torch does not run
                    continue
    return recorder


def _samples(entry: Any) -> Iterator[Any]:
    dtypes = [d for d in (torch.float32, torch.int64, torch.bool) if d in entry.dtypes]
    try:
        for dtype, _ in zip(dtypes, range(1), strict=False):
            for sample, _ in zip(entry.sample_inputs("cpu", dtype), range(_SAMPLES), strict=False):
                yield sample
                yield sample.noncontiguous()
    except Exception:  # samples that this build of torch does not make
        return


def main() -> None:
    """Measures and prints."""
    torch.set_num_threads(1)
    recorder = measure()
    names = sorted(n.removeprefix("aten::") for n in recorder.most if needs_nothing(recorder, n))
    print("\n".join(textwrap.wrap(" ".join(names), 108, break_long_words=False, break_on_hyphens=False)))


if __name__ == "__main__":
    main()
