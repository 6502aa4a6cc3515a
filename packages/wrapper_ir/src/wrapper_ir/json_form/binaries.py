"""Compiled kernels as JSON; their images are files of their own, of which the JSON has the sha256."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir.json_form.context import Decoder
from wrapper_ir.json_form.reading import Json, field, string
from wrapper_ir.json_form.records import CODECS
from wrapper_ir.kernels import KernelBinary, KernelNames, KernelParam, LaunchFacts, TensorMap

__all__ = ["decode_binary", "decode_facts", "decode_maps", "encode_binary", "encode_facts", "encode_maps"]

_BINARY = CODECS.of(KernelBinary)
_FACTS = CODECS.of(LaunchFacts)
_MAPS = CODECS.of(tuple[TensorMap, ...])


def encode_binary(binary: KernelBinary) -> dict[str, Json]:
    """A compiled kernel; `image` is the sha256 of its image."""
    o = _BINARY.encode(None, binary)
    assert isinstance(o, dict)
    return o


def decode_binary(o: dict[str, Json], params: Mapping[str, tuple[KernelParam, ...]]) -> KernelBinary:
    """The inverse of `encode_binary`, with the sha256 (hex) in place of the image; `params` are those of kernels by
    `content_hash`, which a config's grid is over."""
    d = Decoder()
    d.kinds = KernelNames(params.get(field(o, "kernel", string), ()))
    binary: KernelBinary = _BINARY.decode(d, o)
    return binary


def encode_facts(facts: LaunchFacts) -> Json:
    """What a launch takes."""
    return _FACTS.encode(None, facts)


def decode_facts(x: Json) -> LaunchFacts:
    """The inverse of `encode_facts`."""
    facts: LaunchFacts = _FACTS.decode(None, x)
    return facts


def encode_maps(maps: tuple[TensorMap, ...]) -> Json:
    """How tensors are described for a copy engine."""
    return _MAPS.encode(None, maps)


def decode_maps(x: Json) -> tuple[TensorMap, ...]:
    """The inverse of `encode_maps`."""
    maps: tuple[TensorMap, ...] = _MAPS.decode(None, x)
    return maps
