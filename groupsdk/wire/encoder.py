"""Generate the function that encodes one message class in one version."""

import struct
from typing import cast
from uuid import UUID

from groupsdk.wire import primitives
from groupsdk.wire.explain import explain_encode
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
        steps: whether to make a generator that yields now and then, and returns the bytes.
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
            with self.block("try:"):
                self.struct(message, "m")
                if self._out is None:
                    self.line(f"return join(({''.join(part + ', ' for part in self._taken())}))")
                else:
                    self._flush()
                    self.line(f"return join({self._out})")
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
                self.pause()
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
