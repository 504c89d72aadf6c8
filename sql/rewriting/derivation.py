"""Expressions over a view's columns in the place of those over its base tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sqlglot import exp

from sql.rewriting.candidate import Candidate, Mismatch, ViewColumn
from sql.rewriting.dialect import identifier
from sql.rewriting.forms import form, holes_in, mapped
from sql.rewriting.times import at_least, core, determined_by, is_whole, moment_of

COLUMNS_STEP = 3
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.LTE: exp.GTE}
"""a <= t is t >= a; what else compares a whole unit with a time is not a comparison of the truncated time."""


class Derivation:
    """Writes the expressions of one block over one view."""

    def __init__(self, view: Candidate, alias: str, others: Mapping[str, str], equal: Mapping[str, list[str]]) -> None:
        """`others`: the relations of the block that the view does not read, by key, with their aliases. `equal`: see
        Block."""
        self.view = view
        self.pinned: set[int] = set()
        """The holes whose values the derivation has used."""
        self._alias = alias
        self._others = others
        self._equal = equal

    def column(self, column: ViewColumn) -> exp.Expr:
        return exp.Column(this=identifier(column.name), table=identifier(self._alias))

    def value(self, node: exp.Expr) -> exp.Expr:
        """The expression over the view's columns. Raises Mismatch."""
        return mapped(node, lambda each: self._changed(each, inside=each is not node))

    def _changed(self, node: exp.Expr, *, inside: bool) -> exp.Expr | None:
        if (found := self.view.values.get(form(node))) is not None:
            if inside and self.view.keys is not None and not found.has_identity:
                raise Mismatch(
                    COLUMNS_STEP, f"groups by {found.name}, which is {found.type}, do not tell 0.0 from -0.0"
                )
            return self.column(found)
        if isinstance(node, exp.Column):
            return self._column(node)
        return self._time(node) or self._whole_range(node)

    def _column(self, node: exp.Column) -> exp.Expr:
        if not node.table:
            return node
        if (alias := self._others.get(node.table)) is not None:
            return exp.Column(this=identifier(node.name), table=identifier(alias))
        for same in self._equal.get(form(node), ()):
            if (found := self.view.values.get(same)) is not None:
                return self.column(found)
        raise Mismatch(COLUMNS_STEP, f"the view has no column for {node.name}")

    def _time(self, node: exp.Expr) -> exp.Expr | None:
        """A function of a time over a key that truncates it."""
        if not self.view.times or (unit := determined_by(node)) is None:
            return None
        time = form(core(node))
        for shortest, of, column in self.view.times:
            if of == time and at_least(unit, shortest):
                return mapped(node, partial(self._instead, time, column))
        return None

    def _instead(self, of: str, column: ViewColumn, node: exp.Expr) -> exp.Expr | None:
        return self.column(column) if form(node) == of else None

    def _whole_range(self, node: exp.Expr) -> exp.Expr | None:
        """`t >= a` and `t < a` over a key that truncates t, where a unit begins at a."""
        kind = type(node)
        if not self.view.times or kind not in (exp.GTE, exp.LT, exp.GT, exp.LTE):
            return None
        left, right = node.this, node.expression
        if kind in _FLIPPED:
            left, right, kind = right, left, _FLIPPED[kind]
        if (moment := moment_of(right)) is None:
            return None
        subject = form(left)
        for unit, of, column in self.view.times:
            if of == subject and is_whole(moment, unit):
                if len(moment) > len("2024-01-01") or unit not in ("hour", "day"):
                    self.pinned |= holes_in(right)
                return kind(this=self.column(column), expression=mapped(right, lambda _: None))
        return None
