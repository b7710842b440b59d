"""Generate the function that encodes one message class in one version, and explain why a message cannot be encoded."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, cast
from uuid import UUID

from groupsdk.errors import EncodeError
from groupsdk.limits import MAX_STRING_BYTES
from groupsdk.wire import primitives
from groupsdk.wire.primitives import FieldError
from groupsdk.wire.schema import (
    ArrayType,
    Encode,
    Field,
    Message,
    Struct,
    Width,
    WireType,
    declared_fields,
)
from groupsdk.wire.source import SourceWriter


def compile_encoder(message: type[Message], version: int, *, steps: bool = False) -> Encode:
    """Compile the encode function of a message class for a version that its `Api` has.

    Args:
        steps: whether to make a generator that yields now and then, and returns the bytes in pieces.
    """
    return _Encoder(message, version, steps=steps).compile()


class _Encoder(SourceWriter):
    """Generate the source of one encode function."""

    def __init__(self, message: type[Message], version: int, *, steps: bool) -> None:
        super().__init__(message, version)
        self._steps = steps
        self.names.update(
            BYTE=tuple(bytes([n]) for n in range(128)),
            FieldError=FieldError,
            compact_string=primitives.compact_string,
            compact_string_length=primitives.compact_string_length,
            join=b"".join,
            pack=struct.pack,
            uvarint=primitives.uvarint,
            write_tags=primitives.write_tags,
        )
        # parts that are not written yet: an expression of bytes, or (format, expression) of an integer
        self._parts: list[str | tuple[str, str]] = []
        self._out: str | None = None

    def compile(self) -> Encode:
        """Generate and execute the function."""
        message, version = self.message, self.version
        self.names["failures"] = primitives.ENCODE_FAILURES
        self.names["explain"] = lambda m, error: explain_encode(message, m, version, error)
        with self.block("def write(m):"):
            if self._steps:
                self.start_counting()
                self.line("pieces = []")
            with self.block("try:"):
                self.struct(message, "m")
                if self._out is None:
                    written = f"join(({''.join(part + ', ' for part in self._taken())}))"
                else:
                    self._flush()
                    written = f"join({self._out})"
                self.line(f"return [*pieces, {written}]" if self._steps else f"return {written}")
            self.line("except failures as error:")
            self.line("    raise explain(m, error) from error")
        return cast("Encode", self.function("write"))

    def struct(self, declared: type[Struct], source: str) -> None:
        """Write all fields of one struct, and its tagged fields."""
        tags = []
        for each in declared_fields(declared):
            with self.field(each.name):
                if self.version not in each.versions:
                    self._absent(each, source)
                elif each.tag is not None:
                    tags.append(each)
                else:
                    value = f"{source}.{each.name}"
                    self.value(each.type, value, null=each.is_nullable(self.version))
        self._tags(sorted(tags, key=lambda each: cast("int", each.tag)), source)

    def _absent(self, each: Field, source: str) -> None:
        if not each.ignorable:
            default = self.constant("default", each.default)
            self.line(f"if {source}.{each.name} != {default}:")
            self.line("    raise FieldError('is not in this version')")

    def _tags(self, known: list[Field], source: str) -> None:
        unknown = f"{source}.unknown_tagged_fields"
        if not self.flexible:
            self.line(f"if {unknown}:")
            self.line("    raise FieldError('has tagged fields, which this version does not have')")
        elif not known:
            self._parts.append(f"(write_tags((), {unknown}) if {unknown} else BYTE[0])")
        else:
            self._start_out()
            self._flush()
            tags = self.variable("tags")
            self.line(f"{tags} = []")
            for each in known:
                self._tag(each, source, tags)
            self._parts.append(f"write_tags({tags}, {unknown})")

    def _tag(self, each: Field, source: str, tags: str) -> None:
        value = f"{source}.{each.name}"
        with (
            self.field(each.name),
            self.block(f"if {value} != {self.constant('default', each.default)}:"),
        ):
            outer, self._out = self._out, self.variable("tag")
            self.line(f"{self._out} = []")
            null = each.is_nullable(self.version)
            if null and isinstance(each.type, type) and issubclass(each.type, Struct):
                # an unsigned varint says whether it is there, where other fields have an int8
                self._struct_in_place(each.type, value, null=True, absent=b"\0")
            else:
                self.value(each.type, value, null=null)
            self._flush()
            self.line(f"{tags}.append(({each.tag}, join({self._out})))")
            self._out = outer

    def value(self, wire_type: WireType, source: str, *, null: bool) -> None:
        """Write one value of any type."""
        match wire_type:
            case Width(code):
                self._parts.append((code, source))
            case ArrayType(element):
                self._array(element, source, null=null)
            case _ if wire_type is bool:
                self._parts.append(("?", source))
            case _ if wire_type is UUID:
                self._parts.append(f"{source}.bytes")
            case _ if wire_type in (str, bytes):
                self._text_or_bytes(wire_type, source, null=null)
            case _:
                self._struct_in_place(cast("type[Struct]", wire_type), source, null=null)

    def _struct_in_place(
        self, declared: type[Struct], source: str, *, null: bool, absent: bytes = b"\xff"
    ) -> None:
        value = self.variable("value")
        self.line(f"{value} = {source}")
        if not null:
            self.struct(declared, value)
            return
        self._start_out()
        self._flush()
        with self.block(f"if {value} is None:"):
            self.line(f"{self._out}.append({absent!r})")
        with self.block("else:"):
            self._parts.append("BYTE[1]")
            self.struct(declared, value)
            self._flush()

    def _text_or_bytes(self, wire_type: WireType, source: str, *, null: bool) -> None:
        value, length = self.variable("value"), self.variable("length")
        is_text = wire_type is str
        self.line(f"{value} = {source}")
        if null:
            prefix = self.variable("prefix")
            with self.block(f"if {value} is None:"):
                self.line(f"{prefix} = {self._null('h' if is_text else 'i')!r}")
                self.line(f"{value} = b''")
            with self.block("else:"):
                if is_text:
                    self.line(f"{value} = {value}.encode()")
                self.line(f"{length} = len({value})")
                self.line(f"{prefix} = {self._prefix(is_text, length)}")
            # two parts: records may be megabytes, which one concatenation more would copy
            self._parts += (prefix, value)
            return
        if is_text:
            self.line(f"{value} = {value}.encode()")
        self.line(f"{length} = len({value})")
        if self.flexible:
            self._parts.append(self._prefix(is_text, length))
        else:
            self._parts.append(("h" if is_text else "i", length))
        self._parts.append(value)

    def _null(self, code: str) -> bytes:
        return b"\0" if self.flexible else struct.pack(f">{code}", -1)

    def _prefix(self, is_text: bool, length: str) -> str:
        if self.flexible:
            long = f"compact_string_length({length})" if is_text else f"uvarint({length} + 1)"
            return f"(BYTE[{length} + 1] if {length} < 127 else {long})"
        return f"{self._packer('h' if is_text else 'i')}({length})"

    def _array(self, element: WireType, source: str, *, null: bool) -> None:
        value, length = self.variable("value"), self.variable("length")
        self.line(f"{value} = {source}")
        if not null:
            self._elements(element, value, length)
            return
        self._start_out()
        self._flush()
        with self.block(f"if {value} is None:"):
            self.line(f"{self._out}.append({self._null('i')!r})")
        with self.block("else:"):
            self._elements(element, value, length)
            self._flush()

    def _elements(self, element: WireType, value: str, length: str) -> None:
        self.line(f"{length} = len({value})")
        if self.flexible:
            self._parts.append(self._prefix(False, length))
        else:
            self._parts.append(("i", length))
        if isinstance(element, Width):
            self._parts.append(f"pack('>%d{element.code}' % {length}, *{value})")
            return
        self._start_out()
        self._flush()
        if element is str:
            self.line(f"if {value}.__class__ is str:")
            self.line("    raise FieldError('is one string where an array of them is wanted')")
        item = self.variable("item")
        with self.block(f"for {item} in {value}:"):
            if self._steps:
                # not all at the end: joining a hundred megabytes takes as long as many steps
                self.pause("pieces.append(join(out))", "out.clear()")
            if isinstance(element, type) and issubclass(element, Struct):
                self.struct(element, item)
            else:
                self.value(element, item, null=False)
            self._flush()

    def _start_out(self) -> None:
        """Begin a list of what is written, where one expression for the whole message will not do."""
        if self._out is None:
            self._out = "out"
            self.line("out = []")

    def _flush(self) -> None:
        parts = self._taken()
        if len(parts) == 1:
            self.line(f"{self._out}.append({parts[0]})")
        elif parts:
            self.line(f"{self._out} += ({', '.join(parts)})")

    def _taken(self) -> list[str]:
        """Take the waiting parts, runs of integers merged into one call."""
        taken: list[str] = []
        codes, values = "", list[str]()
        for part in [*self._parts, ""]:
            if isinstance(part, tuple):
                codes += part[0]
                values.append(part[1])
                continue
            if codes:
                taken.append(f"{self._packer(codes)}({', '.join(values)})")
                codes, values = "", []
            if part:
                taken.append(part)
        self._parts.clear()
        return taken

    def _packer(self, codes: str) -> str:
        name = f"pack_{codes.replace('?', 'B')}"
        self.names[name] = struct.Struct(f">{codes}").pack
        return name


def explain_encode(
    declared: type[Struct], message: Any, version: int, cause: Exception
) -> EncodeError:
    """Build the error for a message that could not be encoded, naming the first field that is wrong.

    Runs only after a failure, so encoding itself checks nothing that `struct` checks anyway. The error has types and
    sizes of values, not the values: they may be secrets.

    Args:
        cause: the error, used if no field is found to be wrong.
    """
    name = f"{declared.__name__} v{version}"
    for problem in _struct_problems(declared, message, version):
        return EncodeError(f"{name}: {problem}")
    return EncodeError(f"{name}: {cause}")


def _struct_problems(declared: type[Struct], value: Any, version: int) -> Iterator[str]:
    for each in declared_fields(declared):
        content = getattr(value, each.name)
        if version in each.versions:
            null = each.is_nullable(version)
            yield from _value_problems(each.type, each.name, content, version, null=null)
        elif not each.ignorable and content != each.default:
            yield _absent(each)


def _absent(each: Field) -> str:
    return f"{each.name} is not in this version, only in {each.versions}; leave it at its default {each.default!r}"


def _value_problems(
    wire_type: WireType, place: str, value: Any, version: int, *, null: bool
) -> Iterator[str]:
    if value is None:
        if not null:
            yield f"{place} is None, which it may not be in this version"
        return
    match wire_type:
        case Width():
            yield from _number_problems(wire_type, place, value)
        case ArrayType(element):
            yield from _array_problems(element, place, value, version)
        case _ if wire_type in (bool, UUID):
            yield from _type_problems(place, value, wire_type)
        case _ if wire_type is bytes:
            yield from _type_problems(place, value, bytes)
        case _ if wire_type is str:
            yield from _text_problems(place, value)
        case _:
            yield from _element_problems(wire_type, place, value, version)


def _type_problems(place: str, value: Any, wanted: Any) -> Iterator[str]:
    if not isinstance(value, wanted):
        yield f"{place} must be {wanted.__name__}, not {type(value).__name__}"


def _number_problems(width: Width, place: str, value: Any) -> Iterator[str]:
    if not isinstance(value, (int, width.number)):
        yield f"{place} must be {width.number.__name__}, not {type(value).__name__}"
        return
    try:
        struct.pack(f">{width.code}", value)
    except struct.error:
        yield f"{place} is {value}, which does not fit {8 * width.size} bits"


def _text_problems(place: str, value: Any) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{place} must be str, not {type(value).__name__}"
        return
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        yield f"{place} has a character that UTF-8 cannot carry (a lone surrogate)"
        return
    if size > MAX_STRING_BYTES:
        yield f"{place} has {size} bytes in UTF-8, over the limit of {MAX_STRING_BYTES}"


def _array_problems(element: WireType, place: str, value: Any, version: int) -> Iterator[str]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        yield f"{place} must be a tuple, not {type(value).__name__}"
        return
    for index, item in enumerate(value):
        yield from _value_problems(element, f"{place}[{index}]", item, version, null=False)


def _element_problems(declared: Any, place: str, value: Any, version: int) -> Iterator[str]:
    if not isinstance(value, declared):
        yield f"{place} must be {declared.__name__}, not {type(value).__name__}"
        return
    for problem in _struct_problems(declared, value, version):
        yield f"{place}.{problem}"
