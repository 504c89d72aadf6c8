"""What one of several gateways says of itself, and how a door says it to the leader, without I/O.

A door says it at intervals over the connection by which it watches the leader, in frames of limited length that the
shared secret and the numbers of the frames authenticate. The leader answers each with one byte.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from gateway.wire.frame import WireError

MEMBER_BYTES_MAX = 4096
"""Most bytes of what a gateway says of itself."""
TEXT_CHARACTERS_MAX = 255
"""Most characters of an address or a version."""
NUMBER_MAX = 2**62


class GatewayRole(Enum):
    LEADER = "LEADER"
    """Refreshes the views, and serves the clients of all."""
    DOOR = "DOOR"
    """Passes its clients to the leader."""
    SUSPECTING = "SUSPECTING"
    """A door that the leader does not answer."""
    CANDIDATE = "CANDIDATE"
    """Is about to lead."""
    SUCCESSOR = "SUCCESSOR"
    """A door that is ready to take over from a leader that is being stopped."""
    YIELDED = "YIELDED"
    """Has handed over. It says so whenever a statement of its clients has ended, and then the leader takes for changed
    whatever such statements may have written."""
    RETIRING = "RETIRING"
    """A door again, while its last term ends."""
    SUPERSEDED = "SUPERSEDED"
    """A single gateway that only forwards statements, because another one has taken over."""
    SILENT = "SILENT"
    """A door that the leader has not heard of for some seconds."""


@dataclass(frozen=True, slots=True)
class Member:
    """One gateway, as it describes itself."""

    address: str
    """HOST:PORT where the other gateways reach it; of a single one, where clients do."""
    role: GatewayRole
    epoch: int
    """The number of the epoch in which it leads, or follows; 0: none."""
    since: int
    """When it took this role, in milliseconds since 1970 by its own clock."""
    clients: int
    """Connections of clients to it, without those that other gateways pass on."""
    version: str

    def shown(self, leader: str | None) -> dict[str, object]:
        """As JSON for people and programs. `leader`: the address of the one that leads; None: none is known."""
        return {
            "address": self.address,
            "role": self.role.value,
            "epoch": self.epoch or None,
            "leader": leader,
            "since": datetime.fromtimestamp(self.since / 1000, UTC).isoformat(),
            "clients": self.clients,
            "version": self.version,
        }

    def encoded(self) -> bytes:
        address, version = self.address[:TEXT_CHARACTERS_MAX], self.version[:TEXT_CHARACTERS_MAX]
        fields = [address, self.role.value, self.epoch, self.since, self.clients, version]
        return json.dumps(fields).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Member:
        """Raises WireError for anything that `encoded` does not return."""
        try:
            address, role, *numbers, version = json.loads(data)
            epoch, since, clients = numbers
            known = GatewayRole(role)
        except (ValueError, TypeError, RecursionError) as error:
            raise WireError("what a gateway says of itself cannot be read") from error
        if not all(isinstance(each, str) and len(each) <= TEXT_CHARACTERS_MAX for each in (address, version)):
            raise WireError("a gateway has no such address or version")
        if not all(type(each) is int and 0 <= each < NUMBER_MAX for each in numbers):
            raise WireError("a gateway says numbers of itself that are none")
        return cls(address, known, epoch, since, clients, version)
