"""A Thrift struct as a message, as generated code writes it."""

from __future__ import annotations

from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer


def enveloped(name: str, kind: int, seqid: int, struct: Any) -> bytes:
    """A call (TMessageType.CALL) whose only argument is the struct, field 1; or a reply, whose only field is 0."""
    protocol = TBinaryProtocol(TMemoryBuffer())
    protocol.writeMessageBegin(name, kind, seqid)
    protocol.writeFieldBegin("", TType.STRUCT, 1 if kind == TMessageType.CALL else 0)
    struct.write(protocol)
    protocol.writeFieldStop()
    return bytes(protocol.trans.getvalue())
