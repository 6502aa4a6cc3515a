"""Reads a cubin: registers and local memory per thread."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
_REGISTERS, _FRAME = 0x2F, 0x11  # attributes of .nv.info: pairs of a symbol's index and a number
_VALUE_IN_PLACE = (1, 2, 3)  # formats of attributes that no data follows


def resources(cubin: bytes) -> tuple[int | None, int | None]:
    """Registers, and bytes of local memory, per thread; None if the file does not contain them.

    Kernels from Triton use local memory only for spilled registers.
    """
    try:
        attributes = dict(_attributes(_section(cubin, b".nv.info")))
    except (struct.error, IndexError, ValueError):
        return None, None
    return attributes.get(_REGISTERS), attributes.get(_FRAME)


def _section(elf: bytes, name: bytes) -> bytes:
    if elf[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    [start] = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    sections = [_SECTION.unpack_from(elf, start + i * size) for i in range(count)]
    names = sections[names_index][4]
    for section in sections:
        at = names + section[0]
        if elf[at : elf.index(b"\0", at)] == name:
            return elf[section[4] : section[4] + section[5]]
    raise ValueError("no such section")


def _attributes(info: bytes) -> Iterator[tuple[int, int]]:
    """Attributes with a number for a symbol; in files with one kernel, the largest symbol is the kernel's."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form in _VALUE_IN_PLACE:
            continue
        if attribute in (_REGISTERS, _FRAME) and size == 8:
            yield attribute, struct.unpack_from("<II", info, at)[1]
        at += size
