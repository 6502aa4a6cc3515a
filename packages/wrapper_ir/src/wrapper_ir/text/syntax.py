"""The text of records and ops, from the `syntax` of their classes.

    {result} = ensure_aligned {source}, {alignment}< : {result:type=source}>

`{name}` is the field of that name, in the form of its role and type, or in one that is asked for (`{order:name}`; for a
bool two words, `{backed:backed/unbacked}`). `<...>` is left out where its fields have their default values, and may be where several items have none. Brackets
around a field of several items may hold line ends; with `:rows`, each item has a line of its own. `|` begins a line,
after one blank; `{variants:lines}` are records that begin a line each. `{{` is a brace. `{result:type}` is the result's
type; `=source` says that it is left out where it is the type of that operand (or of that class attribute).
`{result:storage}` is a storage's type without its word; `=pool` says that its alignment is left out where it follows from that
operand and the op's `offset`. A class may say in `unsaid` what else than its default is left out of a field.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Generic, TypeVar, get_args, get_origin

from wrapper_ir import ir
from wrapper_ir.errors import BuildError
from wrapper_ir.expr import Expr, Int
from wrapper_ir.support.quoting import value_name
from wrapper_ir.text import forms
from wrapper_ir.text.forms import FieldForm, Form
from wrapper_ir.text.op_parser import OpParser
from wrapper_ir.text.parts import BREAK, Fields, Part, Reader, first_starts, literal, optional, sequence
from wrapper_ir.text.printer_types import TypePrinter

T = TypeVar("T")
_PART = re.compile(
    r"""(?P<open>[\[(]|\{\{)\{(?P<items>\w+)(?::(?P<style>\w+))?\}(?:,\ \{(?P<named>\w+)\})?(?:[\])]|\}\})
      | \{(?P<name>\w+)(?::(?P<form>[\w/]+))?(?:=(?P<like>\w+))?\}
      | (?P<mark>[<>|])
      | (?P<text>\{\{|\}\}|[\[(]|[^{}<>|\[(]+)""",
    re.VERBOSE,
)
_ZERO = Int(0)
_RESULT = re.compile(r"\{(\w+)\} = ")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_WITH_NAMES = (ir.KernelParam, *get_args(ir.KernelDef))


@dataclasses.dataclass(frozen=True, slots=True)
class Syntax(Generic[T]):
    """How the records or ops of one class are written and read; `words` are those that begin them."""

    cls: Callable[..., T]
    op: ir.OpSpec | None
    result: ir.FieldSpec | None
    words: tuple[str, ...]
    starts: Callable[[str], bool]
    write: Callable[[T, TypePrinter], str]
    fields: Reader
    unsaid: Mapping[str, object]

    def read(self, p: OpParser) -> T:
        """What stands here; WIR013 or WIR014 for a value of a kind that an op does not take."""
        start = p.at
        found: Fields = {}
        self.fields(p, found)
        return self.finish(p, found, start)

    def finish(self, p: OpParser, found: Fields, start: int) -> T:
        """The record or op of these fields, which stands at `start`."""
        field, spec = self.result, self.op
        if field is None and spec is not None:
            p.no_result()
        elif field is not None and field.shape is ir.Shape.MANY and field.name not in found:
            found[field.name] = p.results(())
        if spec is None:
            return self.cls(**{**self.unsaid, **found})
        op = self.cls(prov=p.prov, **found)
        for code, message in spec.misfits(op):
            p.fail(code, message, start)
        return op


@ir.per_class
def syntax_of(cls: type[T]) -> Syntax[T]:
    """The compiled syntax of a record or op; BuildError WIR307 for one that cannot be understood."""
    made = compile_syntax(cls, vars(cls).get("syntax", ""))
    if made.op is not None and not made.words:
        raise BuildError("WIR307", f"the syntax of {cls.__name__} does not begin with a word")
    return made


def compile_syntax(cls: type[T], template: str) -> Syntax[T]:
    """A class in a syntax other than its own, or a part of it."""
    unsaid = vars(cls).get("unsaid", {})
    fields = {
        f.name: dataclasses.replace(f, default=unsaid.get(f.name, f.default)) for f in ir.fields_of(cls)
    }
    results = [f for f in fields.values() if f.role is ir.Role.DEF]
    if len(results) > 1:
        raise BuildError("WIR307", f"{cls.__name__} has several fields of results")
    head = _RESULT.match(template)
    parts = _parts(template[head.end() if head else 0 :], fields, cls)
    words = parts[0].tokens[:1]
    if parts[0].fields and ir.is_enum(parts[0].fields[0].hint):
        words = tuple(str(member.value) for member in parts[0].fields[0].hint)
    op = ir.op_spec(cls) if issubclass(cls, ir.OpBase) else None
    write, read = sequence([_results(results[0]), *parts] if head else parts)
    return Syntax(cls, op, results[0] if results else None, words, first_starts(parts), write, read, unsaid)


def _results(field: ir.FieldSpec) -> Part:
    """`%x = `, which is read before the op's class is known."""

    def write(held: ir.Value | None, types: TypePrinter) -> str:
        return "" if held is None else f"%{value_name(held.name)} = "

    def write_many(held: tuple[ir.Value, ...], types: TypePrinter) -> str:
        return f"{', '.join([f'%{value_name(value.name)}' for value in held])} = " if held else ""

    return Part(write=write_many if field.shape is ir.Shape.MANY else write, of=field.name)


# --- the template


def _parts(template: str, fields: Mapping[str, ir.FieldSpec], cls: type) -> list[Part]:
    """Literals, fields, brackets and optional groups, in order."""
    found: list[Part] = []
    outer: list[Part] = []
    at = 0
    while match := _PART.match(template, at):
        at = match.end()
        open_, items, style, named, name, form, like, mark, text = match.groups()
        if items and fields[items].shape in (ir.Shape.MANY, ir.Shape.NAMED):
            found.append(
                _call(fields[items], fields[named]) if named else _items(fields[items], open_[0], style)
            )
        elif items:  # one thing in brackets
            found.append(literal(open_[0]))
            at = match.end("open")
        elif name:
            found.append(_field(fields[name], form, like))
        elif mark == "<":
            outer, found = found, []
        elif mark == ">":
            found = [*outer, optional(found, cls)]
        else:
            found.append(BREAK if mark else literal(text))
    if at != len(template) or not found:
        raise BuildError("WIR307", f"the syntax of {cls.__name__} cannot be understood at {template[at:]!r}")
    return found


def _field(field: ir.FieldSpec, form: str | None, like: str | None) -> Part:
    if form in ("type", "storage"):
        return _types(field, form, like or "")
    return _held(field, forms.lines_of(_form(field.item)) if form == "lines" else form_of(field, form))


def _held(field: ir.FieldSpec, form: FieldForm, like: str | None = None) -> Part:
    """A field by its form."""
    return Part((field,), form.write, starts=form.starts, of=field.name, value=form.read, like=like)


def _types(field: ir.FieldSpec, form: str, like: str) -> Part:
    """The types of results."""
    if form == "storage":
        return _storage(field, like)
    one = Form[ir.Value, ir.Value](lambda value, types: types.type(value.type), lambda p: p.result(p.type()))
    if field.shape is not ir.Shape.MANY:
        return _held(field, one, like)
    return _held(field, Form(forms.list_of(one).write, lambda p: p.results(p.several(OpParser.type))), like)


def _storage(field: ir.FieldSpec, pool: str) -> Part:
    """The type of a storage that an op makes, without its word: `256 @cuda:0 pinned align(16)`. Inside the operand `pool`, it
    is aligned as follows from its place there unless it says otherwise."""
    bare = compile_syntax(ir.StorageType, "{nbytes}{device}< {space}>")

    def usual(host: object, offset: object) -> int:
        if ir.is_storage(host) and isinstance(offset, Expr):
            return ir.slot_alignment(host.type, offset)
        return ir.DEFAULT_ALIGNMENT

    def write(op: object, types: TypePrinter) -> str:
        (made,) = field.values(op)
        if not ir.is_storage(made):  # the verifier refuses it, with this line
            return f": {types.type(made.type)}"
        held, at = made.type, usual(*attrgetter(pool, "offset")(op)) if pool else ir.DEFAULT_ALIGNMENT
        return bare.write(held, types) + ("" if held.alignment == at else f" align({held.alignment})")

    def read(p: OpParser, found: Fields) -> None:
        made: Fields = {}
        bare.fields(p, made)
        if p.accept("align"):
            p.expect("(")
            made["alignment"] = p.integer("an alignment")
            p.expect(")")
        elif pool:
            made["alignment"] = usual(found[pool], found.get("offset", _ZERO))
        found[field.name] = p.result(bare.cls(**made))

    return Part((field,), write, read)


def _call(args: ir.FieldSpec, kwargs: ir.FieldSpec) -> Part:
    """`(argument, ..., name=argument, ...)`."""

    def read(p: OpParser, found: Fields) -> None:
        found[args.name], found[kwargs.name] = p.call_args()

    held = attrgetter(args.name, kwargs.name)

    def write(op: object, types: TypePrinter) -> str:
        return f"({types.call_args(*held(op))})"

    return Part((args, kwargs), write, read)


def _items(field: ir.FieldSpec, opening: str, style: str | None) -> Part:
    """A field of several items in brackets."""
    rows = style == "rows"
    item = item_of(field, None if rows else style)
    item = forms.pair_of(item) if field.shape is ir.Shape.NAMED else item
    return _held(field, forms.items_of(item, opening, _CLOSING[opening], rows=rows))


# --- forms


def form_of(field: ir.FieldSpec, name: str | None = None) -> FieldForm:
    """The form of a field, perhaps one of another name than its own; BuildError WIR307 for a type that has none."""
    if name is None and field.role is ir.Role.DATA:
        if field.hint is bool:
            return forms.choice_of({field.name: True}, f"word: `{field.name}`")
        if field.hint in forms.BY_TYPE:
            return forms.BY_TYPE[field.hint]
    item = item_of(field, name)
    return forms.list_of(item) if field.shape is ir.Shape.MANY else item


def item_of(field: ir.FieldSpec, name: str | None) -> FieldForm:
    """The form of one of the things that a field holds."""
    if name is None:
        return forms.BY_ROLE.get(field.role) or _form(field.item)
    if name in forms.BY_NAME:
        return forms.BY_NAME[name]
    yes, _, no = name.partition("/")
    return forms.choice_of({yes: True, no: False}, f"word: `{yes}` or `{no}`")


def _form(hint: object) -> FieldForm:
    if hint in forms.BY_TYPE:
        return forms.BY_TYPE[hint]
    args = get_args(hint)
    if get_origin(hint) is tuple:
        return forms.items_of(_form(args[0]), "(", ")")
    if len(args) == 2 and args[1] is type(None):
        return forms.or_none(_form(args[0]))
    if ir.is_enum(hint):
        return forms.enum_of(hint)
    if isinstance(hint, type) and "syntax" in vars(hint):
        return record_form(hint)
    raise BuildError("WIR307", f"what is of type {hint} has no text form")


@ir.per_class
def record_form(cls: type[T]) -> Form[T, T]:
    """The form of a record. A kernel's expressions are over its own names."""
    made = syntax_of(cls)
    read = made.read
    return Form(made.write, (lambda p: p.own_names(read)) if cls in _WITH_NAMES else read, made.starts)
