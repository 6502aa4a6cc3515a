"""The rules of an artifact's signature: every code that the verifier can report about it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wrapper_ir.verifier.rules import Rule

_RULES = {
    "WIR101": "the inputs are not a tuple of (arguments tuple, keywords dict)",
    "WIR102": "the signature binds another number of parameters than main takes",
    "WIR103": "an input leaf is named that does not exist",
    "WIR104": "an input leaf is bound twice: to two parameters, or to one and to a fixed value",
    "WIR105": "a result is named that main does not return",
    "WIR106": "there are more or fewer bindings than leaves of the outputs",
    "WIR107": "a structure contradicts itself: its children, keys and class name do not fit its kind",
    "WIR108": "a parameter's name is not an identifier, is repeated, or there are more names than leaves",
    "WIR109": "the parameters do not accept the arguments of the inputs",
    "WIR110": "an output is declared a view of memory that may not contain it",
    "WIR111": "a wrapper contradicts itself, is unwrapped twice, or is bound to a parameter as a whole",
    "WIR112": "leaves that share memory are declared twice, are not bound as required, or are outside of it",
    "WIR113": "main writes a parameter that the signature does not call written, or the other way round",
    "WIR114": "a write-back changes a fixed value, or gives a tensor a shape over other memory",
    "WIR115": "random numbers are drawn on a device that is not declared, or the other way round",
    "WIR116": "a fixed value is not a literal",
    "WIR117": "a field contains an object of another type: a bool for an int, a list for a tuple",
    "WIR118": "a leaf or a parameter is declared twice: written, shared, or written back in the same way",
}

SIGNATURE_RULES: Mapping[str, Rule] = MappingProxyType(
    {code: Rule(code, "signature", meaning) for code, meaning in _RULES.items()}
)
"""All rules, in order of their codes (WIR101 to WIR118)."""
