"""What a kernel's source takes from elsewhere: headers that it includes, modules that it imports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Requirement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A header (`torch/csrc/inductor/cpp_prefix.h`) or a module (`torch._inductor.runtime.triton_helpers`).

    `origin`: the distribution that it is part of, with its version; `sha256`: of its own text, in hex. They are those that
    the source was written for, each empty where it is not known. What the source's compiler itself brings (the standard
    library, `triton`) is not listed.
    Text: `"torch/csrc/inductor/cpp_prefix.h" of "torch 2.13.0" sha256 "3f..."`.
    """

    syntax: ClassVar[str] = "{name}< of {origin}>< sha256 {sha256}>"

    name: str
    origin: str = ""
    sha256: str = ""
