"""Programs with one call of attention, for a table of cases, and torch's result for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wrapper_ir import ir, parse_program
from wrapper_ir_passes import run_pipeline

_SCHEMAS = {
    "flash": "Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, "
    "bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, "
    "Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor debug_attn_mask",
    "cudnn": "Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, "
    "float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, "
    "Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor philox_seed, "
    "Tensor philox_offset, Tensor debug_attn_mask",
    "efficient": "Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, "
    "float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor log_sumexp, "
    "Tensor philox_seed, Tensor philox_offset",
}
_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call: `heads` of the query over `kv_heads`, `rows` of queries over `keys`.

    `mask` is "" (none), "add" (of the scores' sizes), "rows" (the same for all heads and batches), "keys" (the
    same for all rows too), "bool", or "hidden" (no key for some rows). `layout` is "heads" (as sizes), "rows"
    (heads inside of rows), or "packed" (query, key and value are windows of one tensor).
    """

    operator: str = "efficient"
    dtype: torch.dtype = torch.float32
    batch: int = 1
    heads: int = 2
    kv_heads: int = 2
    rows: int = 16
    keys: int = 16
    width: int = 16
    value_width: int = 0
    mask: str = ""
    causal: bool = False
    layout: str = "heads"
    scale: float | None = None
    dynamic: bool = False

    def __str__(self) -> str:
        said = [self.operator, _NAMES[self.dtype], f"{self.batch}x{self.heads}of{self.kv_heads}"]
        said += [f"{self.rows}x{self.keys}x{self.width}", self.mask, self.layout]
        flags = {"causal": self.causal, "dynamic": self.dynamic, "scaled": self.scale is not None}
        return "-".join(filter(None, (*said, *(name for name, is_set in flags.items() if is_set))))


def inputs(case: Case, device: str = "cpu") -> list[Tensor]:
    """Returns query, key, value, and the mask if there is one."""
    torch.manual_seed(0)

    def tensor(heads: int, rows: int, width: int) -> Tensor:
        if case.layout == "heads":
            return torch.randn(case.batch, heads, rows, width)
        return torch.randn(case.batch, rows, heads, width).transpose(1, 2)

    wide = case.value_width or case.width
    if case.layout == "packed":
        packed = torch.randn(case.batch, case.rows, 3, case.heads, case.width).transpose(1, 3)
        tensors = list(packed.to(device, case.dtype).unbind(2))
    else:
        shapes = (case.heads, case.rows, case.width), (case.kv_heads, case.keys, case.width)
        tensors = [tensor(*shape) for shape in (*shapes, (case.kv_heads, case.keys, wide))]
    return [t.to(device, case.dtype) for t in (*tensors, *_mask(case))]


def _mask(case: Case) -> Sequence[Tensor]:
    sizes = case.batch, case.heads, case.rows, case.keys
    hidden = torch.zeros(1, 1, case.rows, case.keys)
    hidden[:, :, ::3] = -math.inf
    masks = {
        "add": torch.randn(sizes),
        "rows": torch.randn(1, 1, *sizes[2:]),
        "keys": torch.where(torch.arange(case.keys) < case.keys // 2 + 1, 0.0, -math.inf)[None, None, None],
        "hidden": hidden,
        "lowest": torch.full((1, 1, *sizes[2:]), torch.finfo(case.dtype).min),
    }
    return [masks[case.mask]] if case.mask else []


def expected(case: Case, tensors: Sequence[Tensor]) -> Tensor:
    """Returns attention in float64; 0 for rows without a visible key."""
    q, k, v, *mask = (t.double() for t in tensors)
    group = case.heads // case.kv_heads
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3) * (case.scale or 1 / math.sqrt(case.width))
    scores = scores + mask[0] if mask else scores
    if case.causal:
        seen = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    return (scores.softmax(3).nan_to_num(0.0) @ v).to(case.dtype)


def program(case: Case, device: str = "cuda:0", arch: str = "sm_90") -> ir.Program:
    """Returns a program that calls the operator; sizes are symbols if the case is dynamic."""
    tensors = inputs(case)
    names = ["%q", "%k", "%v", "%m"][: len(tensors)]
    types = [_type(case, name, tensor) for name, tensor in zip(names, tensors)]
    operator = f"aten::_scaled_dot_product_{case.operator}_attention"
    mask = f"{'%m' if case.mask else 'none'}, false, " if case.operator != "flash" else ""
    args = f"%q, %k, %v, {mask}0.0, {str(case.causal).lower()}"
    scale = f", scale={case.scale}" if case.scale is not None else ""
    out = _type(case, "%o", expected(case, tensors).transpose(1, 2).contiguous().transpose(1, 2))
    symbols = "".join(f"symbol {s} : int backed [2, 4096] hint 8\n" for s in _SYMBOLS) if case.dynamic else ""
    defines = (
        "".join(f"  define {s} = size({v}, {d})\n" for s, (v, d) in _SYMBOLS.items()) if case.dynamic else ""
    )
    return parse_program(
        f"""wir 0.5
target {device} arch "{arch}"

{symbols}extern "{operator}({_SCHEMAS[case.operator]})" tags(random)

func @main({", ".join(f"{n}: {t}" for n, t in zip(names, types))}) {{
{defines}  %t = call {operator}({args}{scale}) : results
  %o = unpack %t[0] : {out}
{"".join(f"  drop {n}{chr(10)}" for n in names)}  drop %t
  return %o
}}
"""
    )


_SYMBOLS = {"s0": ("%q", 0), "s1": ("%q", 2), "s2": ("%k", 2)}


def _type(case: Case, name: str, tensor: Tensor) -> str:
    """The type of a tensor, with symbols for batch, rows and keys."""
    symbols = {"%q": ("s0", "s1"), "%o": ("s0", "s1"), "%m": ("s0", "s1")}.get(name, ("s0", "s2"))
    sizes: list[str] = [str(size) for size in tensor.shape]
    strides = [str(stride) for stride in tensor.stride()]
    if case.dynamic:
        sizes[0], sizes[2] = symbols
        wide, heads, length = sizes[3], sizes[1], sizes[2]
        if case.layout == "heads" and name != "%o":
            strides = [f"{heads}*{length}*{wide}", f"{length}*{wide}", wide, "1"]
        else:
            strides = [f"{length}*{heads}*{wide}", wide, f"{heads}*{wide}", "1"]
    return f"{_NAMES[tensor.dtype]}[{', '.join(sizes)}]{{{', '.join(strides)}}}"


def with_kernels(case: Case, device: str = "cuda:0", arch: str = "sm_90") -> ir.Program:
    """The program after the pass."""
    return run_pipeline(program(case, device, arch), "attention-kernels")
