"""Runs `freshgate` with a wrong proof: whatever reads a view is believed, and proposals read another aggregate."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from gateway.__main__ import main
from gateway.mv.rewriting.proving import Prover
from gateway.service.routing import examiner
from sql.rewriting.matching import Miss, Proposal, propose


async def _believe(*_: object) -> None:
    return None


def _propose_wrongly(*arguments: Any) -> Iterator[Proposal | Miss]:
    for found in propose(*arguments):
        if isinstance(found, Proposal):
            pieces = tuple(
                piece.replace("sum(", "max(") if isinstance(piece, str) else piece for piece in found.template.pieces
            )
            found = replace(found, template=replace(found.template, pieces=pieces))
        yield found


with patch.object(Prover, "refutation", _believe), patch.object(examiner, "propose", _propose_wrongly):
    sys.exit(main())
