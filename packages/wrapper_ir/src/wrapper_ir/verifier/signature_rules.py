"""The rules of an artifact's signature: every code that the verifier can report about it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wrapper_ir.verifier.rules import Rule

_RULES = {
    "WIR101": "the inputs are not a tuple of (arguments tuple, keywords dict)",
    "WIR102": "the signature binds another number of parameters than main takes",
    "WIR103": "an input leaf is named that there is not",
    "WIR104": "an input leaf is bound twice: to two parameters, or to one and to a fixed value",
    "WIR105": "a result is named that main does not return",
    "WIR106": "there are more or fewer bindings than leaves of the outputs",
    "WIR107": "a structure contradicts itself: its children, keys and class name do not fit its kind",
    "WIR108": "a parameter's name cannot be one, stands twice, or there are more names than leaves",
    "WIR109": "the parameters cannot give the arguments that the inputs have",
    "WIR110": "an output is said to be a view of memory that it does not surely lie in",
    "WIR111": "a wrapper contradicts itself, is unwrapped twice, or is bound to a parameter as a whole",
    "WIR112": "leaves that share memory are said twice, are not bound as they should be, or lie outside it",
    "WIR113": "main writes a parameter that the signature does not call written, or the other way round",
    "WIR114": "a write-back goes to a fixed value, or gives a tensor a shape over memory that is not its own",
    "WIR115": "the program draws random numbers where the signature does not say so, or the other way round",
    "WIR116": "a fixed value is not a literal",
    "WIR117": "a field holds something of another type: an index that is not an int (a bool is none), a list for a tuple",
    "WIR118": "a leaf or a parameter is named twice where once is meant: written, shared, written back in the same way",
}

SIGNATURE_RULES: Mapping[str, Rule] = MappingProxyType(
    {code: Rule(code, "signature", meaning) for code, meaning in _RULES.items()}
)
"""All rules, in order of their codes (WIR101 to WIR118)."""
