"""Compile a declared message and a version into one encode and one decode function.

Both are generated as Python source and executed once: no loop over fields, no look-up of types is left at
run time, runs of fixed-size fields become one `struct` call, and every struct of an array is
written or read in line. Names in the source come from the declarations only, never from data.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from uuid import UUID

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire import primitives
from groupsdk.wire.explain import explain_encode
from groupsdk.wire.primitives import FieldError
from groupsdk.wire.schema import (
    ArrayType,
    Decode,
    Encode,
    Field,
    Message,
    Struct,
    Width,
    WireType,
    declared_fields,
)


M = TypeVar("M", bound=Message)


def encoder(message: type[Message], version: int) -> Encode:
    """Return the function that encodes a message of this class in this version.

    Raises (the function, too):
        EncodeError: the version is not declared, or it cannot carry a value of the message.
    """
    found = message.codecs.encoders.get(version)
    if found is None:
        if version not in message.api:
            raise EncodeError(_undeclared(message, version))
        found = message.codecs.encoders[version] = _Encoder(message, version).compile()
    return found


def decoder(message: type[M], version: int) -> "Decode":
    """Return the function that decodes a message of this class in this version.

    It takes the bytes and the position where the message starts, and wants the message to end where
    the bytes end.

    Raises (the function, too):
        DecodeError: the version is not declared, or the bytes are no such message.
    """
    found = message.codecs.decoders.get(version)
    if found is None:
        if version not in message.api:
            raise DecodeError(_undeclared(message, version))
        found = message.codecs.decoders[version] = _Decoder(message, version).compile()
    return found


def encode(message: Message, version: int) -> bytes:
    """Encode the body of a message, without header and length prefix.

    Raises:
        EncodeError: the version is not declared, or it cannot carry a value of the message.
    """
    return encoder(type(message), version)(message)


def decode(message: type[M], version: int, data: bytes) -> M:
    """Decode the body of a message, without header and length prefix; it has to take all of `data`.

    Trailing bytes are an error: they mean that the two sides disagree on the message.

    Raises:
        DecodeError: the version is not declared, or the bytes are no such message.
    """
    return cast("M", decoder(message, version)(bytes(data), 0))


def _undeclared(message: type[Message], version: int) -> str:
    api = message.api
    return (
        f"{message.__name__} is declared for the versions {api.min_version} to {api.max_version},"
        f" not for {version}"
    )


class _Writer:
    """Collect lines of source, each with the field that it is for."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = message.api.is_flexible(version)
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._places: list[str] = []
        self._path: list[str] = []
        self._depth = 0
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)
        self._places.append(".".join(self._path))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        self._path.append(name)
        yield
        self._path.pop()

    def variable(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """Make a value known to the source: in place where its source is short, else by a name."""
        if value is None or value in (b"", (), "") or isinstance(value, bool | int):
            return repr(value)
        name = self.variable(stem)
        self.names[name] = value
        return name

    def function(self, name: str) -> Any:
        file = f"<{name} {self.message.__name__} v{self.version}>"
        namespace = dict(self.names)
        exec(compile("\n".join(self._lines), file, "exec"), namespace)
        return namespace[name]

    def place_of(self, error: BaseException, name: str) -> str:
        """Find the field that the compiled function was at when it failed."""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_name == name:
                return self._places[trace.tb_lineno - 1]
            trace = trace.tb_next
        return ""


class _Encoder(_Writer):
    """Generate the source of one encode function."""

    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(message, version)
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
        with self.block("def write(m):"):
            self.struct(self.message, "m")
            if self._out is None:
                self.line(f"return join(({''.join(part + ', ' for part in self._taken())}))")
            else:
                self._flush()
                self.line(f"return join({self._out})")
        write = cast("Encode", self.function("write"))
        failures, version = primitives.ENCODE_FAILURES, self.version

        def encode_message(message: Any) -> bytes:
            try:
                return write(message)
            except failures as error:
                raise explain_encode(message, version, error) from error

        return encode_message

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
            self.value(each.type, value, null=each.is_nullable(self.version))
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
                raise TypeError(f"{source}: a struct can only be the element of an array")

    def _text_or_bytes(self, wire_type: WireType, source: str, *, null: bool) -> None:
        value, length = self.variable("value"), self.variable("length")
        is_text = wire_type is str
        self.line(f"{value} = {source}")
        if null:
            whole = self.variable("whole")
            with self.block(f"if {value} is None:"):
                self.line(f"{whole} = {self._null('h' if is_text else 'i')!r}")
            with self.block("else:"):
                if is_text:
                    self.line(f"{value} = {value}.encode()")
                self.line(f"{length} = len({value})")
                self.line(f"{whole} = {self._prefix(is_text, length)} + {value}")
            self._parts.append(whole)
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


class _Decoder(_Writer):
    """Generate the source of one decode function.

    In the source, `d` holds the bytes, `e` their number, and `p` the position. The position never moves
    back; slices that run over the end are short, and the check at the end finds it.
    """

    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(message, version)
        self.names.update(
            FieldError=FieldError,
            TaggedField=primitives.TaggedField,
            UUID=UUID,
            new=object.__new__,
            read_compact_bytes=primitives.read_compact_bytes,
            read_compact_string=primitives.read_compact_string,
            read_tag=primitives.read_tag,
            read_unknown_tags=primitives.read_unknown_tags,
            read_uvarint=primitives.read_uvarint,
            unpack_from=struct.unpack_from,
        )
        self._waiting: list[tuple[str, str]] = []  # (format, variable) of integers not read yet

    def compile(self) -> Decode:
        """Generate and execute the function."""
        with self.block("def read(d, p):"):
            self.line("e = len(d)")
            result = self.struct(self.message)
            self.line(f"return {result}, p")
        read = self.function("read")
        failures, name = primitives.DECODE_FAILURES, f"{self.message.__name__} v{self.version}"

        def decode_message(data: bytes, position: int) -> Any:
            try:
                message, stop = read(data, position)
            except failures as error:
                place = self.place_of(error, "read")
                raise DecodeError(f"{name}: {_decode_problem(error, place, len(data))}") from error
            if stop != len(data):
                raise DecodeError(f"{name}: {_wrong_end(stop, len(data))}")
            return message

        return decode_message

    def struct(self, declared: type[Struct]) -> str:
        """Read one struct; returns the variable that holds it."""
        values: dict[str, str] = {}
        tags = []
        for each in declared_fields(declared):
            with self.field(each.name):
                if self.version not in each.versions:
                    values[each.name] = self.constant("default", each.default)
                elif each.tag is not None:
                    tags.append(each)
                else:
                    null = each.is_nullable(self.version)
                    values[each.name] = self.value(each.type, null=null)
        unknown = self._tags(tags, values) if self.flexible else "()"
        self._read_waiting()
        result = self.variable("struct")
        self.names[declared.__name__] = declared
        self.line(f"{result} = new({declared.__name__})")
        for name, value in [*values.items(), ("unknown_tagged_fields", unknown)]:
            # the slot's own setter: a frozen dataclass's constructor takes twice the time
            setter = f"set_{declared.__name__}_{name}"
            self.names[setter] = getattr(declared, name).__set__
            self.line(f"{setter}({result}, {value})")
        return result

    def _tags(self, known: list[Field], values: dict[str, str]) -> str:
        count, unknown = self.variable("count"), self.variable("unknown")
        for each in known:
            values[each.name] = self.variable(each.name)
            self.line(f"{values[each.name]} = {self.constant('default', each.default)}")
        self._waiting.append(("B", count))
        self._read_waiting()
        self.line(f"{unknown} = ()")
        with self.block(f"if {count}:"):
            if not known:
                self.line(f"{unknown}, p = read_unknown_tags(d, p - 1, e)")
                return unknown
            tag, stop = self.variable("tag"), self.variable("stop")
            self.line(f"{count}, p = read_uvarint(d, p - 1)")
            self.line("p += 1")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, p, {stop} = read_tag(d, p, e)")
                word = "if"
                for each in known:
                    with self.block(f"{word} {tag} == {each.tag}:"), self.field(each.name):
                        self._tag(each, values[each.name], stop)
                    word = "elif"
                with self.block("else:"):
                    self.line(f"{unknown} += (TaggedField({tag}, d[p:{stop}]),)")
                    self.line(f"p = {stop}")
        return unknown

    def _tag(self, each: Field, variable: str, stop: str) -> None:
        value = self.value(each.type, null=each.is_nullable(self.version))
        self._read_waiting()
        self.line(f"{variable} = {value}")
        self.line(f"if p != {stop}:")
        self.line("    raise FieldError('does not fill its tagged field')")

    def value(self, wire_type: WireType, *, null: bool) -> str:
        """Read one value of any type; returns the variable that holds it, set at the latest by `_read_waiting`."""
        value = self.variable("value")
        match wire_type:
            case Width(code):
                self._waiting.append((code, value))
            case ArrayType(element):
                self._array(element, value, null=null)
            case _ if wire_type is bool:
                self._waiting.append(("?", value))
            case _ if wire_type is UUID:
                self._waiting.append(("16s", value))
                self._read_waiting()
                self.line(f"{value} = UUID(bytes={value})")
            case _ if wire_type in (str, bytes):
                self._text_or_bytes(value, is_text=wire_type is str, null=null)
            case _:
                raise TypeError("a struct can only be the element of an array")
        return value

    def _text_or_bytes(self, value: str, *, is_text: bool, null: bool) -> None:
        length, stop = self.variable("length"), self.variable("stop")
        text = ".decode()" if is_text else ""
        if self.flexible:
            self._waiting.append(("B", length))
            self._read_waiting(back=1)
            word = "if"
            if null:
                self.line(f"if {length} == 0:")
                self.line(f"    {value} = None")
                self.line("    p += 1")
                word = "elif"
            with self.block(f"{word} 0 < {length} < 128:"):
                self.line(f"{stop} = p + {length}")
                self.line(f"{value} = d[p + 1:{stop}]{text}")
                self.line(f"p = {stop}")
            self.line("else:")
            self.line(f"    {value}, p = read_compact_{'string' if is_text else 'bytes'}(d, p)")
            return
        self._waiting.append(("h" if is_text else "i", length))
        self._read_waiting()
        with self.block(f"if {length} >= 0:"):
            self.line(f"{stop} = p + {length}")
            self.line(f"{value} = d[p:{stop}]{text}")
            self.line(f"p = {stop}")
        self._null_or_problem(value, length, null=null)

    def _null_or_problem(self, value: str, length: str, *, null: bool) -> None:
        """Go on after the branch for a length of zero and more, in an encoding that is not compact."""
        if null:
            self.line(f"elif {length} == -1:")
            self.line(f"    {value} = None")
        self.line("else:")
        self.line(f"    raise FieldError('has the length or count %d' % {length})")

    def _array(self, element: WireType, value: str, *, null: bool) -> None:
        count = self.variable("count")
        if not self.flexible:
            self._waiting.append(("i", count))
            self._read_waiting()
            with self.block(f"if {count} >= 0:"):
                self._elements(element, value, count)
            self._null_or_problem(value, count, null=null)
            return
        self._waiting.append(("B", count))
        self._read_waiting()
        self.line(f"if {count} > 127:")
        self.line(f"    {count}, p = read_uvarint(d, p - 1)")
        self.line("    p += 1")
        with self.block(f"if {count}:"):
            self.line(f"{count} -= 1")
            self._elements(element, value, count)
        self.line("else:")
        if null:
            self.line(f"    {value} = None")
        else:
            self.line("    raise FieldError('is null, which it may not be in this version')")

    def _elements(self, element: WireType, value: str, count: str) -> None:
        size = _least_size(element, self.version, self.flexible)
        self.line(f"if {count} * {size} > e - p:")
        self.line(
            f"    raise FieldError('counts %d elements where %d bytes are left' % ({count}, max(e - p, 0)))"
        )
        if isinstance(element, Width):
            self.line(f"{value} = unpack_from('>%d{element.code}' % {count}, d, p)")
            self.line(f"p += {count} * {size}")
            return
        items = self.variable("items")
        self.line(f"{items} = []")
        with self.block(f"for _ in range({count}):"):
            if isinstance(element, type) and issubclass(element, Struct):
                item = self.struct(element)
            else:
                item = self.value(element, null=False)
                self._read_waiting()
            self.line(f"{items}.append({item})")
        self.line(f"{value} = tuple({items})")

    def _read_waiting(self, back: int = 0) -> None:
        """Read the waiting integers in one go; leave the position `back` bytes before their end."""
        codes = "".join(code for code, _ in self._waiting)
        variables = [variable for _, variable in self._waiting]
        self._waiting.clear()
        if codes in ("", "B"):
            if codes:
                self.line(f"{variables[0]} = d[p]")
                self._move(1 - back)
            return
        layout = struct.Struct(f">{codes}")
        name = f"unpack_{codes.replace('?', 'z')}"
        self.names[name] = layout.unpack_from
        self.line(f"{', '.join(variables)}, = {name}(d, p)")
        self._move(layout.size - back)

    def _move(self, distance: int) -> None:
        if distance:
            self.line(f"p += {distance}")


def _least_size(wire_type: WireType, version: int, flexible: bool) -> int:
    """Count the bytes that a value takes at least; bounds how many of them the bytes left can hold."""
    match wire_type:
        case Width():
            return wire_type.size
        case ArrayType():
            return 1 if flexible else 4
        case _ if wire_type is bool:
            return 1
        case _ if wire_type is UUID:
            return 16
        case _ if wire_type is str:
            return 1 if flexible else 2
        case _ if wire_type is bytes:
            return 1 if flexible else 4
        case _:
            declared = declared_fields(cast("type[Struct]", wire_type))
            return flexible + sum(
                _least_size(each.type, version, flexible)
                for each in declared
                if version in each.versions and each.tag is None
            )


def _decode_problem(error: Exception, place: str, size: int) -> str:
    subject = place or "the message"
    match error:
        case FieldError():
            return f"{subject} {error}"
        case UnicodeError():
            return f"{subject} is not valid UTF-8, or the {size} bytes end within it"
        case _:
            return f"the {size} bytes end within or before {subject}"


def _wrong_end(stop: int, size: int) -> str:
    if stop > size:
        return f"a length in it runs {stop - size} bytes over the end of its {size} bytes"
    return f"{size - stop} of {size} bytes are left over"
