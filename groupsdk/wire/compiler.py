"""Compile a declared message and a version into one encode and one decode function.

Both are generated as Python source and executed once: no loop over fields, no look-up of types is left at
run time, runs of fixed-size fields become one `struct` call, and every struct of an array is
written or read in line. Names in the source come from the declarations only, never from data.
"""

from collections.abc import Callable, Generator
from typing import TypeVar, cast

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.decoder import compile_decoder
from groupsdk.wire.encoder import compile_encoder
from groupsdk.wire.schema import Decode, Encode, Message


M = TypeVar("M", bound=Message)
T = TypeVar("T")
CodecSteps = Generator[None, None, T]
"""The work of a codec in steps, which returns its result at the end."""


def encoder(message: type[Message], version: int) -> Encode:
    """Return the function that encodes a message of this class in this version.

    Raises (the function, too):
        Raises EncodeError if the version is not declared, or it cannot carry a value of the message.
    """
    found = message.codecs.encoders.get(version)
    if found is None:
        if version not in message.api:
            raise EncodeError(_undeclared(message, version))
        found = message.codecs.encoders[version] = compile_encoder(message, version)
    return found


def decoder(message: type[M], version: int) -> Decode:
    """Return the function that decodes a message of this class in this version.

    It takes the bytes and the position where the message starts, and wants the message to end where
    the bytes end.

    Raises (the function, too):
        Raises DecodeError if the version is not declared, or the bytes are not such a message.
    """
    found = message.codecs.decoders.get(version)
    if found is None:
        if version not in message.api:
            raise DecodeError(_undeclared(message, version))
        found = message.codecs.decoders[version] = compile_decoder(message, version)
    return found


def lenient_decoder(message: type[M], version: int) -> Decode:
    """Compile a decode function for the requests that a broker reads; keep it, as it is not kept here.

    It reads as Kafka's brokers do. They do not look behind a request, and librdkafka 2.16 sends Metadata from
    version 11 on with three bytes too many; they take any negative length for null where null may be, and put
    U+FFFD in the place of what is no UTF-8. Beyond that it takes no more elements than `MAX_REQUEST_ELEMENTS`.

    Raises (the function, too):
        Raises DecodeError if the version is not declared, or the bytes are not such a message.
    """
    if version not in message.api:
        raise DecodeError(_undeclared(message, version))
    return compile_decoder(message, version, lenient=True)


def lenient_decoder_in_steps(
    message: type[M], version: int
) -> Callable[[bytes, int], CodecSteps[M]]:
    """Compile a lenient decode function that works in steps of a few milliseconds, for large requests on a shared loop.

    Returns:
        A function of the bytes and the position of the message, which returns a generator. The generator yields between
        two steps, and returns the message.

    Raises (the generator):
        Raises DecodeError if the bytes are not such a message.
    """
    made = compile_decoder(message, version, lenient=True, steps=True)
    return cast("Callable[[bytes, int], CodecSteps[M]]", made)


def encoder_in_steps(message: type[M], version: int) -> Callable[[M], CodecSteps[list[bytes]]]:
    """Compile an encode function that returns a generator, which works in steps of a few milliseconds.

    Returns:
        A function of the message, which returns a generator. The generator yields between two steps, and returns the
        bytes in pieces of up to a few hundred kilobytes.

    Raises (the generator):
        Raises EncodeError if the version cannot carry a value of the message.
    """
    made = compile_encoder(message, version, steps=True)
    return cast("Callable[[M], CodecSteps[list[bytes]]]", made)


def encode(message: Message, version: int) -> bytes:
    """Encode the body of a message, without header and length prefix.

    Raises EncodeError if the version is not declared, or it cannot carry a value of the message.
    """
    return encoder(type(message), version)(message)


def decode(message: type[M], version: int, data: bytes | bytearray | memoryview) -> M:
    """Decode the body of a message, without header and length prefix; it has to take all of `data`.

    Trailing bytes are an error: they mean that the two sides disagree on the message. Raises DecodeError if the
    version is not declared, or the bytes are no such message.
    """
    return cast("M", decoder(message, version)(bytes(data), 0))


def _undeclared(message: type[Message], version: int) -> str:
    api = message.api
    return (
        f"{message.__name__} is declared for the versions {api.min_version} to {api.max_version},"
        f" not for {version}"
    )
