"""Writes a Thrift struct as a message, as generated code does."""

from __future__ import annotations

from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer


def enveloped(name: str, kind: int, seqid: int, struct: Any) -> bytes:
    """Returns a call (TMessageType.CALL) whose only argument, field 1, is the struct; or a reply with the struct as
    field 0."""
    protocol = TBinaryProtocol(TMemoryBuffer())
    protocol.writeMessageBegin(name, kind, seqid)
    protocol.writeFieldBegin("", TType.STRUCT, 1 if kind == TMessageType.CALL else 0)
    struct.write(protocol)
    protocol.writeFieldStop()
    return bytes(protocol.trans.getvalue())


def replied(name: str, seqid: int, body: bytes) -> bytes:
    """A reply whose struct, with its end, is already encoded."""
    head = (0x80010000 | TMessageType.REPLY).to_bytes(4, "big") + len(name).to_bytes(4, "big")
    return b"".join((head, name.encode(), seqid.to_bytes(4, "big", signed=True), body))
