"""MessagePack with its limits on and its errors translated; the only importer of the library.

What lives here: bytes to plain values and back. What may not: any meaning of those values.
Arrays come back as tuples, text that is not UTF-8 with surrogates (PEP 383). Memory stays within a
multiple of the input, because no length is believed beyond the limits given.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]  # ships no types

from chunkvault.errors import FormatError

_MAX_MAP: Final = 1 << 20
_NIL: Final = b"\xc0"
_FOREIGN: Final = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)

pack: Final[Callable[[object], bytes]] = msgpack.Packer(
    use_bin_type=True, autoreset=True, unicode_errors="surrogateescape"
).pack
"""One value as MessagePack. Threads may share it: a call holds the interpreter, or its own lock."""


def unpack(data: bytes, what: str, *, max_array: int) -> Any:  # noqa: ANN401 - callers check it
    """The one value that ``data`` holds.

    Raises:
        FormatError: not exactly one value, or lengths beyond the limits.
    """
    try:
        return msgpack.unpackb(
            data,
            use_list=False,
            strict_map_key=False,
            unicode_errors="surrogateescape",
            max_array_len=max_array,
            max_map_len=min(_MAX_MAP, len(data)),
            max_ext_len=0,
        )
    except _FOREIGN as error:
        raise FormatError(f"{what} is not well-formed: {_one_line(error)}") from error


def unpack_all(
    data: bytes, what: str, *, max_values: int, max_array: int, max_map: int
) -> list[Any]:
    """The values that ``data`` holds one after the other, no text among them.

    Raises:
        FormatError: not whole values, more than ``max_values``, or lengths beyond the limits.
    """
    unpacker = msgpack.Unpacker(
        use_list=False,
        strict_map_key=False,
        max_buffer_size=len(data) + len(_NIL),
        max_str_len=0,
        max_array_len=max_array,
        max_map_len=max_map,
        max_ext_len=0,
    )
    try:
        unpacker.feed(data)
        values = list(islice(unpacker, max_values + 1))
        if len(values) > max_values:
            raise FormatError(f"{what} holds more than its size allows")
        # The iterator stops without a word inside an unfinished value. A nil after it tells: it
        # comes out as itself only where nothing was left open.
        unpacker.feed(_NIL)
        if list(unpacker) != [None]:
            raise FormatError(f"{what} ends in the middle of a value")
    except _FOREIGN as error:
        raise FormatError(f"{what} is not well-formed: {_one_line(error)}") from error
    return values


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
