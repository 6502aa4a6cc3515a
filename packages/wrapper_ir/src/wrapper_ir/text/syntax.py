"""Compiler of the `syntax` of ops and other dataclasses into writers and readers.

    {result} = ensure_aligned {source}, {alignment}< : {result:type=source}>

- `{name}`: the field, in the form of its role and type.
- `{order:name}`: the field in another form; a bool has two words, `{backed:backed/unbacked}`.
- `<...>`: an optional group, omitted if its fields have their default values, or are empty and have no
  default.
- `[{name}]`, `({name})`: a field of several items in brackets, which may contain line ends.
- `({name:rows})`: the same, with each item on a separate line.
- `|`: a new line, indented by one blank.
- `{variants:lines}`: items on separate lines.
- `{{`: a brace.
- `{result:type}`: the type of the result. With `=source`, the type of that operand or class attribute is the
  default.
- `{result:storage}`: the type of a storage without its word. With `=pool`, the default alignment follows from
  that operand and the op's `offset`.

A class may declare in `unsaid` other values to omit than the defaults of its fields.
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
    """Writer and reader of the objects of one class; `words` are their possible first words."""

    cls: Callable[..., T]
    op: ir.OpSpec | None
    result: ir.FieldSpec | None
    words: tuple[str, ...]
    starts: Callable[[str], bool]
    write: Callable[[T, TypePrinter], str]
    fields: Reader
    unsaid: Mapping[str, object]

    def read(self, p: OpParser) -> T:
        """Parses an object. Raises ParseError WIR013 or WIR014 for a value that the op does not accept."""
        start = p.at
        fields: Fields = {}
        self.fields(p, fields)
        return self.finish(p, fields, start)

    def finish(self, p: OpParser, fields: Fields, start: int) -> T:
        """Creates the object of these fields, whose text starts at `start`."""
        field, spec = self.result, self.op
        if field is None and spec is not None:
            p.no_result()
        elif field is not None and field.shape is ir.Shape.MANY and field.name not in fields:
            fields[field.name] = p.results(())
        if spec is None:
            return self.cls(**{**self.unsaid, **fields})
        op = self.cls(prov=p.prov, **fields)
        for code, message in spec.misfits(op):
            p.fail(code, message, start)
        return op


@ir.per_class
def syntax_of(cls: type[T]) -> Syntax[T]:
    """Compiles the syntax of a class, once. Raises BuildError WIR307 if it is malformed."""
    syntax = compile_syntax(cls, vars(cls).get("syntax", ""))
    if syntax.op is not None and not syntax.words:
        raise BuildError("WIR307", f"the syntax of {cls.__name__} does not begin with a word")
    return syntax


def compile_syntax(cls: type[T], template: str) -> Syntax[T]:
    """Compiles another syntax of a class, or a part of its syntax."""
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
    """Returns the part `%x = `, which the parser reads before it knows the op's class."""

    def write(result: ir.Value | None, types: TypePrinter) -> str:
        return "" if result is None else f"%{value_name(result.name)} = "

    def write_many(results: tuple[ir.Value, ...], types: TypePrinter) -> str:
        return f"{', '.join([f'%{value_name(value.name)}' for value in results])} = " if results else ""

    return Part(write=write_many if field.shape is ir.Shape.MANY else write, of=field.name)


# --- the template


def _parts(template: str, fields: Mapping[str, ir.FieldSpec], cls: type) -> list[Part]:
    """Returns the parts of a template: literals, fields, brackets and optional groups, in order."""
    parts: list[Part] = []
    outer: list[Part] = []
    at = 0
    while match := _PART.match(template, at):
        at = match.end()
        opening, items, style, by_name, name, form, like, mark, text = match.groups()
        if items and fields[items].shape in (ir.Shape.MANY, ir.Shape.NAMED):
            parts.append(
                _call(fields[items], fields[by_name]) if by_name else _items(fields[items], opening[0], style)
            )
        elif items:  # a single item in brackets
            parts.append(literal(opening[0]))
            at = match.end("open")
        elif name:
            parts.append(_field(fields[name], form, like))
        elif mark == "<":
            outer, parts = parts, []
        elif mark == ">":
            parts = [*outer, optional(parts, cls)]
        else:
            parts.append(BREAK if mark else literal(text))
    if at != len(template) or not parts:
        raise BuildError("WIR307", f"the syntax of {cls.__name__} cannot be understood at {template[at:]!r}")
    return parts


def _field(field: ir.FieldSpec, form: str | None, like: str | None) -> Part:
    if form in ("type", "storage"):
        return _types(field, form, like or "")
    return _one_field(field, forms.lines_of(_form(field.item)) if form == "lines" else form_of(field, form))


def _one_field(field: ir.FieldSpec, form: FieldForm, like: str | None = None) -> Part:
    return Part((field,), form.write, starts=form.starts, of=field.name, value=form.read, like=like)


def _types(field: ir.FieldSpec, form: str, like: str) -> Part:
    """Returns the part of result types."""
    if form == "storage":
        return _storage(field, like)
    one = Form[ir.Value, ir.Value](lambda value, types: types.type(value.type), lambda p: p.result(p.type()))
    if field.shape is not ir.Shape.MANY:
        return _one_field(field, one, like)
    many = Form(forms.list_of(one).write, lambda p: p.results(p.several(OpParser.type)))
    return _one_field(field, many, like)


def _storage(field: ir.FieldSpec, pool: str) -> Part:
    """Returns the part of an allocated storage's type, without its word: `256 @cuda:0 pinned align(16)`.

    The default alignment of a storage inside the operand `pool` follows from its offset.
    """
    bare = compile_syntax(ir.StorageType, "{nbytes}{device}< {space}>")

    def usual(host: object, offset: object) -> int:
        if ir.is_storage(host) and isinstance(offset, Expr):
            return ir.slot_alignment(host.type, offset)
        return ir.DEFAULT_ALIGNMENT

    def write(op: object, types: TypePrinter) -> str:
        (result,) = field.values(op)
        if not ir.is_storage(result):  # the verifier prints this line when it refuses the op
            return f": {types.type(result.type)}"
        type, default = result.type, usual(*attrgetter(pool, "offset")(op)) if pool else ir.DEFAULT_ALIGNMENT
        return bare.write(type, types) + ("" if type.alignment == default else f" align({type.alignment})")

    def read(p: OpParser, fields: Fields) -> None:
        own: Fields = {}
        bare.fields(p, own)
        if p.accept("align"):
            p.expect("(")
            own["alignment"] = p.integer("an alignment")
            p.expect(")")
        elif pool:
            own["alignment"] = usual(fields[pool], fields.get("offset", _ZERO))
        fields[field.name] = p.result(bare.cls(**own))

    return Part((field,), write, read)


def _call(args: ir.FieldSpec, kwargs: ir.FieldSpec) -> Part:
    """Returns the part `(argument, ..., name=argument, ...)`."""

    def read(p: OpParser, fields: Fields) -> None:
        fields[args.name], fields[kwargs.name] = p.call_args()

    get = attrgetter(args.name, kwargs.name)

    def write(op: object, types: TypePrinter) -> str:
        return f"({types.call_args(*get(op))})"

    return Part((args, kwargs), write, read)


def _items(field: ir.FieldSpec, opening: str, style: str | None) -> Part:
    """Returns the part of a field of several items in brackets."""
    rows = style == "rows"
    item = item_of(field, None if rows else style)
    item = forms.pair_of(item) if field.shape is ir.Shape.NAMED else item
    return _one_field(field, forms.items_of(item, opening, _CLOSING[opening], rows=rows))


# --- forms


def form_of(field: ir.FieldSpec, name: str | None = None) -> FieldForm:
    """Returns the form of a field, or the one called `name`. Raises BuildError WIR307 without a form."""
    if name is None and field.role is ir.Role.DATA:
        if field.hint is bool:
            return forms.choice_of({field.name: True}, f"word: `{field.name}`")
        if field.hint in forms.BY_TYPE:
            return forms.BY_TYPE[field.hint]
    item = item_of(field, name)
    return forms.list_of(item) if field.shape is ir.Shape.MANY else item


def item_of(field: ir.FieldSpec, name: str | None) -> FieldForm:
    """Returns the form of one item of a field."""
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
        return class_form(hint)
    raise BuildError("WIR307", f"values of type {hint} have no text form")


@ir.per_class
def class_form(cls: type[T]) -> Form[T, T]:
    """Returns the form of a class with a syntax. Expressions of a kernel use the kernel's names."""
    syntax = syntax_of(cls)
    read = syntax.read
    return Form(syntax.write, (lambda p: p.own_names(read)) if cls in _WITH_NAMES else read, syntax.starts)
