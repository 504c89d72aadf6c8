"""What CREATE and ALTER refuse of clauses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import view_of

from gateway.errors import DefinitionRefused
from gateway.mv.model.view import Version
from gateway.mv.statements.admission import check_immutable
from sql.statement import CreateClauses, Security


@pytest.mark.parametrize(
    ("clauses", "properties", "refused"),
    [
        (CreateClauses(security=Security.INVOKER), {"when_stale": "INLINE"}, None),
        (CreateClauses(immutable="n < 3"), {"when_stale": "SERVE"}, None),
        (CreateClauses(immutable="n < 3"), {"when_stale": "INLINE"}, "both IMMUTABLE WHERE and WHEN STALE INLINE"),
        (CreateClauses(immutable="n < 3", security=Security.INVOKER), {}, "both IMMUTABLE WHERE and SECURITY INVOKER"),
        (CreateClauses(immutable="day > current_date()"), {}, "form column < time"),
    ],
)
def test_immutable_rows_need_a_lasting_condition_and_stored_rows(
    clauses: CreateClauses, properties: dict[str, str], refused: str | None
) -> None:
    view = replace(view_of(Version.whole(1, 0, 0, {})), clauses=clauses, properties=properties)
    if refused is None:
        check_immutable(view)
    else:
        with pytest.raises(DefinitionRefused, match=refused):
            check_immutable(view)
