"""TensorBoard's event files, as far as scalars need them, without TensorBoard.

Records are framed as TFRecords: length, masked crc32c, data, masked crc32c
(tensorflow/core/lib/io/record_writer.h). They hold Event messages (tensorflow/core/util/event.proto).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_MASK_DELTA = 0xA282EAD8
_VERSION = b"brain.Event:2"  # the first record of every file

# Field number and wire type in one byte. Wire types: 0 varint, 1 eight bytes, 2 counted, 5 four bytes.
_WALL_TIME = b"\x09"
_STEP = b"\x10"
_FILE_VERSION = b"\x1a"
_SUMMARY = b"\x2a"
_VALUE = b"\x0a"
_TAG = b"\x0a"
_SIMPLE_VALUE = b"\x15"


def first_record(wall_time: float) -> bytes:
    return _record(_WALL_TIME + struct.pack("<d", wall_time) + _FILE_VERSION + _counted(_VERSION))


def scalars_record(wall_time: float, step: int, scalars: Mapping[str, float]) -> bytes:
    values = b"".join(_VALUE + _counted(_scalar(tag, value)) for tag, value in scalars.items())
    event = _WALL_TIME + struct.pack("<d", wall_time) + _STEP + _varint(step) + _SUMMARY + _counted(values)
    return _record(event)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table_entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (_POLYNOMIAL if index & 1 else 0)
    return index


_TABLE = tuple(_table_entry(index) for index in range(256))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF)


def _scalar(tag: str, value: float) -> bytes:
    return _TAG + _counted(tag.encode()) + _SIMPLE_VALUE + struct.pack("<f", _as_float32(value))


def _as_float32(value: float) -> float:
    """Return infinity for what a float32 cannot hold (struct refuses it); a chart shows it."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def _counted(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
