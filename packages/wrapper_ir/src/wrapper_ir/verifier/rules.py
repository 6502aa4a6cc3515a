"""The rules of a valid program: every code that the verifier can report, by the check that reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """One rule: its stable code, the check that holds it, and what is wrong when it is broken."""

    code: str
    check: str
    meaning: str


_RULES = {
    "program": {
        "WIR001": "the program holds something that no program may hold (a field of another type); nothing else of that function is checked",
        "WIR002": "two functions have one name",
        "WIR003": "two kernels have one name",
        "WIR004": "two operators are declared under one name",
        "WIR005": "two symbols have one name",
        "WIR006": "two constants have one name",
        "WIR007": "the program has no function",
        "WIR008": "a symbol's range is empty, or its hint lies outside",
        "WIR009": "a constant is not a tensor, or its hash is not a sha256 in hex",
        "WIR016": "a constant lies badly in the storage that it names: before its start, between elements, or where a constant on another device, of other mutability or without stored bytes lies, or one of that name with a storage of its own",
        "WIR017": "two constants have one name in the model, or a name is empty",
    },
    "definitions": {
        "WIR010": "a value is used before anything defines it",
        "WIR011": "a value is defined twice in its function, or hides a constant",
        "WIR012": "a value is used with a type other than the one it was defined with",
        "WIR013": "an operand is of a kind that the op does not take (a storage where a tensor is needed, ...)",
        "WIR014": "a result or parameter is of a kind that the op does not make",
    },
    "structure": {
        "WIR020": "a function does not end in a return",
        "WIR021": "a return stands before the end",
        "WIR022": "a called function does not exist",
        "WIR023": "a function calls itself, directly or through others",
        "WIR024": "main is called, or captures symbols",
        "WIR025": "a returned value is a storage, or neither a value, an expression nor none",
    },
    "symbols": {
        "WIR030": "a symbol is not declared",
        "WIR031": "a symbol is used before it is defined",
        "WIR032": "a symbol is defined twice in a function",
        "WIR033": "an expression outside `define` looks at a value",
        "WIR015": "a number is surely not an int64, or a symbol is a product of so many others that it may have 65,536 bits",
        "WIR034": "an expression is of the wrong kind (int, float, bool)",
        "WIR035": "a captured symbol is not defined where the function is called",
        "WIR209": "an expression never has a value: a division by zero, a negative exponent of an int, a function outside of its domain",
        "WIR036": "an expression looks at something that is not there: a dimension out of range, a size of a storage, the item of a tensor with several elements",
    },
    "types": {
        "WIR040": "sizes and strides differ in number",
        "WIR041": "a size is negative",
        "WIR042": "a stride is negative",
        "WIR043": "a storage has a negative number of bytes",
        "WIR044": "an alignment is not a power of two, or a stream is negative",
    },
    "layout": {
        "WIR050": "a view reaches outside its storage, or a slot outside its pool",
        "WIR051": "a view's offset is not a multiple of its item size, or its slot begins where none of its items can",
        "WIR052": "a view is on another device than its source, or a slot in other memory than its pool",
        "WIR053": "an aligned copy, a finished tensor or a result in place has another type than its source",
        "WIR054": "a copy's source cannot be broadcast to its destination",
        "WIR055": "an op writes a tensor whose elements overlap each other",
        "WIR056": "a copy's source and destination overlap",
        "WIR057": "an asserted layout contradicts the tensor's type",
        "WIR200": "a storage or an aligned copy is to be more aligned than the allocators of its device make it",
        "WIR220": "a tensor is set to itself, or to one of another dtype or device",
    },
    "shapes": {
        "WIR058": "the sizes of an operator's arguments do not fit, and its library does not look at them",
    },
    "lifetimes": {
        "WIR229": "main returns what is, or may be, memory of an immutable constant, which callers could write: return a clone, or declare the constant mutable",
        "WIR060": "a tensor is used after its storage was freed",
        "WIR061": "a value is used after it was dropped",
        "WIR062": "a value is used after its storage was reused or moved",
        "WIR063": "a storage is freed twice",
        "WIR064": "something is freed or dropped that is not the function's: a borrowed parameter, a constant",
        "WIR065": "something is freed that is not a storage of its own: a view, a result that may alias",
        "WIR066": "a storage is neither freed, moved nor returned",
        "WIR067": "a result that may alias, a nested result or a handle is never dropped",
        "WIR068": "a storage is reused that is not the function's own",
        "WIR069": "a value is moved that is not the function's own, or that another argument shares, or a tensor over a slot or a storage parameter is returned",
        "WIR070": "a storage of the function's own is dropped instead of freed",
        "WIR018": "a pool is freed before a slot of it",
    },
    "initialised": {
        "WIR080": "bytes are read that nothing has written",
        "WIR081": "an immutable constant is written",
    },
    "resized": {
        "WIR026": "a tensor is read or written whose elements a resized storage no longer holds",
    },
    "kernels": {
        "WIR028": "kernels that one is chosen from do not fit together",
        "WIR039": "two launches of one kernel with the same numbers state different extents, so one of them is wrong",
        "WIR082": "a launched kernel does not exist; or shown values are before or after a launch that they do not name, or name one and are neither",
        "WIR083": "a launch has another number of arguments than the kernel has parameters",
        "WIR084": "a pointer parameter is given a number, or a scalar parameter a tensor",
        "WIR085": "a pointer parameter is given a tensor of another dtype",
        "WIR086": "a scalar parameter is given an expression of another kind",
        "WIR087": "two arguments share bytes that the kernel writes, and their parameters may not alias",
        "WIR210": "two arguments of an in-place pair share bytes, but do not start at the same one",
        "WIR088": "a launch gives another number of extents than the kernel has pointers, or a malformed grid",
        "WIR089": "an extent is larger than the storage behind its argument",
        "WIR202": "an address or a number that a launch gives is not the multiple that the kernel's parameter says",
        "WIR090": "the arguments of a launch are on several devices, or not where the kernel runs",
        "WIR091": "a kernel's definition contradicts itself",
    },
    "externs": {
        "WIR071": "a called operator is not declared",
        "WIR072": "an operator's schema cannot be read",
        "WIR073": "a call has too many arguments, or one that the schema does not name, or one twice",
        "WIR074": "a call leaves out an argument without default",
        "WIR075": "an argument does not fit its type in the schema",
        "WIR076": "a result does not fit the returns of the schema",
        "WIR077": "a path leads nowhere in a nested result",
        "WIR078": "an element of a nested result is taken as another kind of value than it is",
        "WIR079": "an out argument shares bytes with an argument that is read",
        "WIR282": "an operator is called that gives a tensor other memory or another layout than its type says, or reads memory without looking at its bounds",
    },
    "calls": {
        "WIR092": "a call has another number of arguments than the function has parameters",
        "WIR093": "an argument's type is not the parameter's",
        "WIR094": "a call's results differ from what the function returns, in number, kind, dtype, rank or device",
        "WIR095": "the branches of a switch own different parameters",
        "WIR027": "a switch has no branch, has not two for a bool, or its index is the position of no branch",
        "WIR096": "a predicate is neither a boolean expression nor a tensor of one element, or an index neither a bool nor an int nor a tensor of one of them",
        "WIR097": "a function of a loop owns a parameter",
        "WIR098": "the body of a loop returns a tensor that is not fresh",
        "WIR099": "a loop's carried values, body results and results differ",
        "WIR029": "an op that changes a storage's size or owner stands outside main, or touches planned storage",
    },
    "streams": {
        "WIR045": "a tensor is used on one stream, or its memory given back, while another may still write or read it",
    },
    "scopes": {
        "WIR221": "a scope does not end in the function that it begins in, or a scope is ended where none is open",
        "WIR222": "more than 16 scopes stand in one another",
        "WIR223": "a memory pool has no name, or is one of the CPU, which has none",
    },
    "recording": {
        "WIR225": "a recordable function, or one that it calls, does what a replay does not: the host waits for the device, shows or checks values, reads one, or decides by one; or an operator has effects of its own",
        "WIR226": "a recordable function, or one that it calls, has memory or work on the CPU, or memory on two devices",
        "WIR227": "a recordable function, or one that it calls, changes a storage or takes memory from a pool, or the called one owns a parameter",
        "WIR228": "a recordable function, or one that it calls, does not wait for what it starts on another stream, or waits for an event of its caller",
        "WIR281": "a recordable function returns something else than tensors of its own",
        "WIR280": "a static parameter is not a tensor",
    },
    "collectives": {
        "WIR037": "a collective names another group than the one that its operator is given",
        "WIR038": "a collective has no result to wait for",
        "WIR046": "bytes that a collective in flight may write are read, written, freed or moved",
        "WIR047": "a collective is waited for twice, or something is waited for that is not a collective",
        "WIR048": "a result of a collective is never waited for",
        "WIR049": "an argument that a collective in flight reads is written, freed or moved",
    },
    "symmetric": {
        "WIR203": "two storages have one id of symmetric or registered memory at the same time",
        "WIR204": "a tensor in symmetric or registered memory leaves a function: it is returned, or another tensor gets its storage",
        "WIR205": "an argument that must be symmetric memory surely is not",
        "WIR206": "an operator is declared to need symmetric memory for what is not one of its tensor arguments, or twice for one",
        "WIR207": "an operator that is known to need symmetric memory for an argument is declared without",
        "WIR276": "bytes of symmetric memory are given on while an operator that does not wait for all processes may still be at work there",
        "WIR277": "an operator of one group is given symmetric memory of another",
        "WIR278": "an argument lies in symmetric memory at an offset that is not a number, and may differ between processes",
        "WIR208": "symmetric or registered memory is resized, or given to an operator that takes new memory for it, hands it to another tensor, or leaves its reuse to the device's allocator",
    },
    "pools": {
        "WIR019": "a slot lies in a storage that is not a pool, or a storage has slots and tensors",
        "WIR201": "a slot is not as aligned as its type says",
        "WIR275": "a slot is to keep zeros from call to call, though others write its bytes, or names a stream and begins with nothing",
        "WIR059": "two slots of one pool overlap while both are there, or a callee is given bytes that something else holds",
    },
}


_FLAT = (Rule(code, check, meaning) for check, rules in _RULES.items() for code, meaning in rules.items())
RULES: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rule in sorted(_FLAT)})
"""All rules, in order of their codes (WIR001 to WIR099, and from WIR200 on)."""
