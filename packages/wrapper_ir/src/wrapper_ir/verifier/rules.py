"""The rules of a valid program: every code that the verifier can report about it, by check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """One rule: its stable code, the check that enforces it, and the meaning of a violation."""

    code: str
    check: str
    meaning: str


_RULES = {
    "program": {
        "WIR001": (
            "the program contains an object that no program may contain (a field of another type); "
            "nothing else of that function is checked"
        ),
        "WIR002": "two functions have one name",
        "WIR003": "two kernels have one name",
        "WIR004": "two operators are declared under one name",
        "WIR005": "two symbols have one name",
        "WIR006": "two constants have one name",
        "WIR007": "the program has no function",
        "WIR008": "a symbol's range is empty, or its hint is outside of the range",
        "WIR009": "a constant is not a tensor, or its hash is not a sha256 in hex",
        "WIR016": (
            "the place of a constant in its storage is invalid: before the start, inside of an element, "
            "or shared with a constant of another device or mutability or without stored bytes; or the "
            "storage has the name of a constant with a separate storage"
        ),
        "WIR017": (
            "two constants have one name in the model, and neither is packed from the other, or a name is "
            "empty"
        ),
        "WIR283": (
            "a packed constant is mutable or in a storage with others, its type is not that of its layout, "
            "or its original, or another constant packed from it, differs from its description"
        ),
    },
    "definitions": {
        "WIR010": "a value is used before anything defines it",
        "WIR011": "a value is defined twice in its function, or hides a constant",
        "WIR012": "a value is used with a type other than the one it was defined with",
        "WIR013": "an operand is of a kind that the op does not accept (a storage for a tensor, ...)",
        "WIR014": "a result or parameter is of a kind that the op or function cannot define",
    },
    "structure": {
        "WIR020": "a function does not end in a return",
        "WIR021": "a return is not the last op",
        "WIR022": "a called function does not exist",
        "WIR023": "a function calls itself, directly or through others",
        "WIR024": "main is called, or captures symbols",
        "WIR025": "a returned value is a storage, or neither a value, an expression nor none",
    },
    "symbols": {
        "WIR030": "a symbol is not declared",
        "WIR031": "a symbol is used before it is defined",
        "WIR032": "a symbol is defined twice in a function",
        "WIR033": "an expression outside of `define` reads a value",
        "WIR015": (
            "a number is certainly not an int64, or a symbol is a product of so many others that it may "
            "have 65,536 bits"
        ),
        "WIR034": "an expression is of the wrong kind (int, float, bool)",
        "WIR035": "a captured symbol is not defined where the function is called",
        "WIR209": (
            "an expression never has a value: a division by zero, a negative exponent of an int, a "
            "function outside of its domain"
        ),
        "WIR036": (
            "an expression reads something that does not exist: a dimension out of range, a size of a "
            "storage, the item of a tensor with several elements"
        ),
    },
    "types": {
        "WIR040": "sizes and strides differ in number",
        "WIR041": "a size is negative",
        "WIR042": "a stride is negative",
        "WIR043": "a storage has a negative number of bytes",
        "WIR044": "an alignment is not a power of two, or a stream is negative",
    },
    "layout": {
        "WIR050": "a view is outside of its storage, or a slot outside of its pool",
        "WIR051": (
            "a view's offset is not a multiple of its item size, or its slot starts where none of its "
            "items can"
        ),
        "WIR052": "a view is on another device than its source, or a slot in other memory than its pool",
        "WIR053": "an aligned copy, a finished tensor or a result in place has another type than its source",
        "WIR054": "a copy's source cannot be broadcast to its destination",
        "WIR055": "an op writes a tensor whose elements overlap each other",
        "WIR056": "a copy's source and destination overlap",
        "WIR057": "an asserted layout contradicts the tensor's type",
        "WIR200": (
            "a storage or an aligned copy needs a larger alignment than the allocators of its device "
            "guarantee"
        ),
        "WIR220": (
            "the storage of a tensor is set to its own, or to one of a tensor of another dtype or device"
        ),
    },
    "shapes": {
        "WIR058": "the sizes of an operator's arguments do not fit, and its library does not check them"
    },
    "lifetimes": {
        "WIR229": (
            "main returns what is, or may be, memory of an immutable constant, which callers could write: "
            "return a clone, or declare the constant mutable"
        ),
        "WIR060": "a tensor is used after its storage was freed",
        "WIR061": "a value is used after it was dropped",
        "WIR062": "a value is used after its storage was reused or moved",
        "WIR063": "a storage is freed twice",
        "WIR064": (
            "a value that the function does not own is freed or dropped: a borrowed parameter, a constant"
        ),
        "WIR065": "a value without a separate storage is freed: a view, a result that may alias",
        "WIR066": "a storage is neither freed, moved nor returned",
        "WIR067": "a result that may alias, a nested result or a handle is never dropped",
        "WIR068": "a storage is reused that the function does not own",
        "WIR069": (
            "a value is moved that the function does not own, or that another argument shares, or a "
            "tensor over a slot or a storage parameter is returned"
        ),
        "WIR070": "a storage that the function owns is dropped instead of freed",
        "WIR018": "a pool is freed before one of its slots",
    },
    "initialised": {
        "WIR080": "bytes are read that nothing has written",
        "WIR081": "an immutable constant is written",
    },
    "resized": {"WIR026": "a tensor is read or written whose elements are outside of a resized storage"},
    "kernels": {
        "WIR028": "the variants of a multi-kernel do not fit together",
        "WIR039": (
            "two launches of one kernel with the same numbers state different extents, so one of them is "
            "wrong"
        ),
        "WIR082": (
            "a launched kernel does not exist; or a debug value names a launch and is neither before nor "
            "after it, or the other way round"
        ),
        "WIR083": "a launch has another number of arguments than the kernel has parameters",
        "WIR084": "a pointer parameter is given a number, or a scalar parameter a tensor",
        "WIR085": "a pointer parameter is given a tensor of another dtype",
        "WIR086": "a scalar parameter is given an expression of another kind",
        "WIR087": "two arguments share bytes that the kernel writes, and their parameters may not alias",
        "WIR210": "two arguments of an in-place pair share bytes, but do not start at the same one",
        "WIR088": (
            "a launch gives another number of extents than the kernel has pointers, or a malformed grid"
        ),
        "WIR089": "an extent is larger than the storage of its argument",
        "WIR202": (
            "an address or a number argument of a launch is not the multiple that the kernel's parameter "
            "assumes"
        ),
        "WIR090": "the arguments of a launch are on several devices, or not where the kernel runs",
        "WIR091": "a kernel's definition contradicts itself",
    },
    "externs": {
        "WIR071": "a called operator is not declared",
        "WIR072": "an operator's schema cannot be parsed",
        "WIR073": (
            "a call has too many arguments, an argument that the schema does not name, or an argument twice"
        ),
        "WIR074": "a call omits an argument without default",
        "WIR075": "an argument does not fit its type in the schema",
        "WIR076": "a result does not fit the returns of the schema",
        "WIR077": "a path does not exist in a nested result",
        "WIR078": "an element of a nested result is unpacked as another kind of value than it is",
        "WIR079": "an out argument shares bytes with an argument that is read",
        "WIR282": (
            "an operator is called that changes the memory or layout of a tensor without changing its "
            "type, or reads memory without checking its bounds"
        ),
    },
    "calls": {
        "WIR092": "a call has another number of arguments than the function has parameters",
        "WIR093": "an argument's type is not the parameter's",
        "WIR094": (
            "a call's results differ from what the function returns, in number, kind, dtype, rank or device"
        ),
        "WIR095": "the branches of a switch own different parameters",
        "WIR027": "a switch has no branch, or not two for a bool, or its index is outside of its branches",
        "WIR096": (
            "a predicate is neither a boolean expression nor a tensor of one element, or an index neither "
            "a bool nor an int nor a tensor of one of them"
        ),
        "WIR097": "a function of a loop owns a parameter",
        "WIR098": "the body of a loop returns a tensor that is not fresh",
        "WIR099": "a loop's carried values, body results and results differ",
        "WIR029": (
            "an op that changes a storage's size or owner is outside of main, or changes planned storage"
        ),
    },
    "streams": {
        "WIR045": (
            "a tensor is used on one stream, or its memory freed, while another stream may still write or "
            "read it"
        )
    },
    "scopes": {
        "WIR221": (
            "a scope does not end in the function that it begins in, or a scope is ended where none is open"
        ),
        "WIR222": "more than 16 scopes are nested",
        "WIR223": "a memory pool has no name, or is on the CPU, which has none",
    },
    "replay": {
        "WIR225": (
            "a replayable function, or one that it calls, does what a replay does not: the host waits for "
            "the device, shows, checks or reads values, or decides by one; or an operator has other "
            "effects"
        ),
        "WIR226": (
            "a replayable function, or one that it calls, has memory or work on the CPU, or memory on two "
            "devices"
        ),
        "WIR227": (
            "a replayable function, or one that it calls, changes a storage or allocates from a pool, or "
            "the callee owns a parameter"
        ),
        "WIR228": (
            "a replayable function, or one that it calls, does not wait for its work on another stream, "
            "or waits for an event of its caller"
        ),
        "WIR281": "a replayable function returns a value that is not a fresh tensor",
        "WIR280": "a static parameter is not a tensor",
    },
    "collectives": {
        "WIR037": "a collective names another group than the argument of its operator",
        "WIR038": "a collective has no result to wait for",
        "WIR046": "bytes that a collective in flight may write are read, written, freed or moved",
        "WIR047": "a collective is waited for twice, or the awaited value is not a collective's",
        "WIR048": "a result of a collective is never waited for",
        "WIR049": "an argument that a collective in flight reads is written, freed or moved",
    },
    "symmetric": {
        "WIR203": "two live storages have one id of symmetric or registered memory",
        "WIR204": (
            "a tensor in symmetric or registered memory leaves a function: it is returned, or another "
            "tensor gets its storage"
        ),
        "WIR205": "an argument that must be symmetric memory certainly is not",
        "WIR206": (
            "an operator is declared to need symmetric memory for a name that is not one of its tensor "
            "arguments, or twice for one"
        ),
        "WIR207": "an operator that is known to need symmetric memory for an argument is declared without",
        "WIR276": (
            "symmetric memory is allocated again while an operator that does not wait for all processes "
            "may still access it"
        ),
        "WIR277": "an operator of one group has an argument in symmetric memory of another group",
        "WIR278": (
            "an argument is in symmetric memory at an offset that is not constant, and may differ between "
            "processes"
        ),
        "WIR208": (
            "symmetric or registered memory is resized, or is an argument of an operator that replaces "
            "its memory, moves it to another tensor, or leaves its reuse to the device's allocator"
        ),
    },
    "pools": {
        "WIR019": "a slot is in a storage that is not a pool, or a storage has both slots and tensors",
        "WIR201": "a slot has less alignment than its type",
        "WIR275": (
            "a slot is to keep zeros from call to call, though others write its bytes, or has a stream "
            "but is not zeroed"
        ),
        "WIR059": (
            "two live slots of one pool overlap, or a storage argument of a callee shares bytes with "
            "another live value"
        ),
    },
}


_FLAT = (Rule(code, check, meaning) for check, rules in _RULES.items() for code, meaning in rules.items())
RULES: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rule in sorted(_FLAT)})
"""All rules, in order of their codes (WIR001 to WIR099, and from WIR200 on)."""
