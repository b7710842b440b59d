"""Generate the function that decodes one message class in one version."""

import struct
from typing import cast
from uuid import UUID

from groupsdk.errors import DecodeError
from groupsdk.limits import MAX_REQUEST_ELEMENTS
from groupsdk.wire import primitives
from groupsdk.wire.primitives import FieldError
from groupsdk.wire.schema import (
    NO_UUID,
    ArrayType,
    Decode,
    Field,
    Message,
    Struct,
    Width,
    WireType,
    declared_fields,
)
from groupsdk.wire.source import SourceWriter
from groupsdk.wire.twin import has_lock, open_twin


def compile_decoder(
    message: type[Message], version: int, *, lenient: bool = False, steps: bool = False
) -> Decode:
    """Compile the decode function of a message class for a version that its `Api` has.

    Args:
        lenient: whether to read as Kafka reads requests: bytes behind the message are left alone, any negative
            length is null where null may be, what is no UTF-8 becomes U+FFFD. All arrays of the message
            together have at most `MAX_REQUEST_ELEMENTS` elements then.
        steps: whether to make a generator that yields now and then, and returns the message.
    """
    return _Decoder(message, version, lenient=lenient, steps=steps).compile()


class _Decoder(SourceWriter):
    """Generate the source of one decode function.

    In the source, `d` holds the bytes, `e` their number, and `p` the position. The position never moves
    back; slices that run over the end are short, and the check at the end finds it.
    """

    def __init__(self, message: type[Message], version: int, *, lenient: bool, steps: bool) -> None:
        super().__init__(message, version)
        self._lenient = lenient
        self._steps = steps
        self._decode_text = ".decode('utf-8', 'replace')" if lenient else ".decode()"
        self.names.update(
            FieldError=FieldError,
            NO_ID=NO_UUID.bytes,
            NO_UUID=NO_UUID,
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
        self._has_lock = has_lock()

    def compile(self) -> Decode:
        """Generate and execute the function."""
        self.names.update(
            failures=primitives.DECODE_FAILURES, failed=self._failed, wrong_end=self._wrong_end
        )
        with self.block("def read(d, p):"):
            self.line("e = len(d)")
            if self._lenient:
                self.line(f"left = {MAX_REQUEST_ELEMENTS}")
            if self._steps:
                self.start_counting()
            with self.block("try:"):
                result = self.struct(self.message)
                self.line("if p <= e:" if self._lenient else "if p == e:")
                self.line(f"    return {result}")
            self.line("except failures as error:")
            self.line("    raise failed(error, e) from error")
            self.line("raise wrong_end(p, e)")
        return cast("Decode", self.function("read"))

    def _failed(self, error: Exception, size: int) -> DecodeError:
        subject = self.place_of(error) or "the message"
        match error:
            case FieldError():
                problem = f"{subject} {error}"
            case UnicodeError():
                problem = f"{subject} is not valid UTF-8, or the {size} bytes end within it"
            case _:
                problem = f"the {size} bytes end within or before {subject}"
        return DecodeError(f"{self.title}: {problem}")

    def _wrong_end(self, stop: int, size: int) -> DecodeError:
        if stop > size:
            problem = f"a length in it runs {stop - size} bytes over the end of its {size} bytes"
        else:
            problem = f"{size - stop} of {size} bytes are left over"
        return DecodeError(f"{self.title}: {problem}")

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
        name = declared.__name__
        values["unknown_tagged_fields"] = unknown
        self.names[name] = declared
        if not self._has_lock:
            given = ", ".join(f"{field_name}={value}" for field_name, value in values.items())
            self.line(f"{result} = {name}({given})")
            return result
        self.names[f"Open{name}"] = open_twin(declared)
        self.line(f"{result} = new(Open{name})")
        for field_name, value in values.items():
            self.line(f"{result}.{field_name} = {value}")
        self.line(f"{result}.__class__ = {name}")
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
                if self._lenient:
                    self._spend(f"len({unknown})")
                return unknown
            tag, stop, kept = (self.variable(stem) for stem in ("tag", "stop", "kept"))
            self.line(f"{kept} = []")
            self.line(f"{count}, p = read_uvarint(d, p - 1)")
            self.line("p += 1")
            if self._lenient:
                self._spend(count)
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, p, {stop} = read_tag(d, p, e)")
                word = "if"
                for each in known:
                    with self.block(f"{word} {tag} == {each.tag}:"), self.field(each.name):
                        self._tag(each, values[each.name], stop)
                    word = "elif"
                with self.block("else:"):
                    self.line(f"{kept}.append(TaggedField({tag}, d[p:{stop}]))")
                    self.line(f"p = {stop}")
            self.line(f"{unknown} = tuple({kept})")
        return unknown

    def _tag(self, each: Field, variable: str, stop: str) -> None:
        null = each.is_nullable(self.version)
        if null and isinstance(each.type, type) and issubclass(each.type, Struct):
            # an unsigned varint, 0 or 1, says whether it is there, where other fields have an int8
            value = self._struct_in_place(each.type, null=True, is_there="== 1")
        else:
            value = self.value(each.type, null=null)
        self._read_waiting()
        self.line(f"{variable} = {value}")
        self.line(f"if p != {stop}:")
        self.line("    raise FieldError('does not fill its tagged field')")

    def value(self, wire_type: WireType, *, null: bool) -> str:
        """Read one value of any type; returns the variable that holds it, set at the latest by `_read_waiting`."""
        if isinstance(wire_type, type) and issubclass(wire_type, Struct):
            return self._struct_in_place(wire_type, null=null)
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
                # requests that name topics have this id for each of them: one object for all
                self.line(f"{value} = NO_UUID if {value} == NO_ID else UUID(bytes={value})")
            case _:
                self._text_or_bytes(value, is_text=wire_type is str, null=null)
        return value

    def _struct_in_place(
        self, declared: type[Struct], *, null: bool, is_there: str = "< 128"
    ) -> str:
        if not null:
            return self.struct(declared)
        sign, value = self.variable("sign"), self.variable("value")
        self._waiting.append(("B", sign))
        self._read_waiting()
        with self.block(f"if {sign} {is_there}:"):
            self.line(f"{value} = {self.struct(declared)}")
        self.line("else:")  # as Kafka: any negative int8 is null, any other one is not
        self.line(f"    {value} = None")
        return value

    def _text_or_bytes(self, value: str, *, is_text: bool, null: bool) -> None:
        length, stop = self.variable("length"), self.variable("stop")
        text = self._decode_text if is_text else ""
        if self.flexible:
            self._waiting.append(("B", length))
            self._read_waiting(back=1)
            word = "if"
            if null:
                self.line(f"if {length} == 0:")
                self.line(f"    {value} = None")
                self.line("    p += 1")
                word = "elif"
                if is_text:
                    # what may be null is mostly that or empty, as the metadata of offsets
                    self.line(f"elif {length} == 1:")
                    self.line(f"    {value} = ''")
                    self.line("    p += 1")
            with self.block(f"{word} 0 < {length} < 128:"):
                self.line(f"{stop} = p + {length}")
                self.line(f"{value} = d[p + 1:{stop}]{text}")
                self.line(f"p = {stop}")
            self.line("else:")
            more = ", 'replace'" if is_text and self._lenient else ""
            self.line(
                f"    {value}, p = read_compact_{'string' if is_text else 'bytes'}(d, p{more})"
            )
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
            self.line(f"elif {length} {'< 0' if self._lenient else '== -1'}:")
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
        if self._lenient:
            self._spend(count)
        if isinstance(element, Width):
            self.line(f"{value} = unpack_from('>%d{element.code}' % {count}, d, p)")
            self.line(f"p += {count} * {size}")
            return
        items = self.variable("items")
        self.line(f"{items} = []")
        with self.block(f"for _ in range({count}):"):
            if self._steps:
                self.pause()
            if isinstance(element, type) and issubclass(element, Struct):
                item = self.struct(element)
            else:
                item = self.value(element, null=False)
                self._read_waiting()
            self.line(f"{items}.append({item})")
        self.line(f"{value} = tuple({items})")

    def _spend(self, count: str) -> None:
        """Bound what a message takes in memory: an element of two bytes may become an object of hundreds."""
        self.line(f"left -= {count}")
        self.line("if left < 0:")
        self.line(
            f"    raise FieldError('counts %d elements, more than a request may have' % {count})"
        )

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
                _least_field_size(each, version, flexible)
                for each in declared
                if version in each.versions and each.tag is None
            )


def _least_field_size(each: Field, version: int, flexible: bool) -> int:
    if each.is_nullable(version) and isinstance(each.type, type) and issubclass(each.type, Struct):
        return 1  # null; of everything else null takes no less than the empty value
    return _least_size(each.type, version, flexible)
