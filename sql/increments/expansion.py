"""Writes the queries of Spark views and CTEs in the places where a definition names them, so that each mention of a
table below them is a place of its own.

Tests: `test_increment_definitions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sql.increments.reasons import NotIncremental
from sql.increments.written import Edit, Written, refuse, spliced
from sql.names import Namespace, TableName, quote
from sql.query.ctes import Ctes
from sql.query.trees import alias_columns, is_named, other_part

CHARACTERS_MAX = 50_000
"""Of the whole text: views on views, each of which names the one below twice, grow exponentially."""
NESTED_MAX = 32
VIEW = "freshgate_view"
"""The alias of the query of a view."""


@dataclass(frozen=True, slots=True)
class SparkView:
    """A view that stands for its query."""

    text: str
    namespace: Namespace
    """Where the text resolves unqualified names."""
    columns: tuple[str, ...]
    outputs: tuple[str, ...]
    """The names that these columns have in the query. Spark finds them there by name."""


Views = Mapping[TableName, SparkView]


def expanded(written: Written, namespace: Namespace, views: Views) -> Written:
    """The definition over tables, without CTEs. Raises NotIncremental."""
    tables = (each for each in written.tree.find_all(exp.Table) if isinstance(each.this, exp.Identifier))
    if written.tree.find(exp.With) is None and not any(_name(each, namespace) in views for each in tables):
        return written
    return Written(_Text(written, namespace, _Queries(views), within=False).whole())


def query_of(name: TableName, views: Views) -> str:
    """The query that stands for a view, with its columns. Raises NotIncremental."""
    return _Queries(views).of(name)


def _name(table: exp.Table, namespace: Namespace) -> TableName:
    return TableName.resolve(tuple(part.name for part in table.parts), namespace)


class _Queries:
    """The queries that stand for views."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._found: dict[TableName, str] = {}
        self._above: list[TableName] = []
        """The views that are being read, from the outermost."""

    def __contains__(self, name: TableName) -> bool:
        return name in self._views

    def of(self, name: TableName) -> str:
        if name not in self._found:
            if name in self._above:
                raise refuse(f"the view {name} reads itself")
            if len(self._above) >= NESTED_MAX:
                raise refuse(f"more than {NESTED_MAX} views stand on each other")
            self._above.append(name)
            self._found[name] = self._read(name, self._views[name])
            self._above.pop()
        return self._found[name]

    def _read(self, name: TableName, view: SparkView) -> str:
        folded = {output.lower() for output in view.outputs}
        if not len(folded) == len(view.outputs) == len(view.columns):
            raise refuse(f"the columns of the view {name} cannot be told apart by their names in its query")
        items = [
            quote(output) if output == column else f"{quote(output)} AS {quote(column)}"
            for output, column in zip(view.outputs, view.columns, strict=True)
        ]
        try:
            written = Written(view.text)
        except NotIncremental as reason:
            raise refuse(f"the view {name}: {reason.detail}", reason.reason) from None
        body = _Text(written, view.namespace, self, within=True).whole()
        return f"SELECT {', '.join(items)} FROM ({body}) AS {quote(VIEW)}"


class _Text:
    """One text: the definition's, or a view's."""

    def __init__(self, written: Written, namespace: Namespace, queries: _Queries, *, within: bool) -> None:
        """`within`: whether it is a view's, whose names mean nothing in the definition's namespace."""
        self._written = written
        self._namespace = namespace
        self._queries = queries
        self._within = within
        self._ctes = Ctes()
        self._withs = [self._clause(each) for each in written.tree.find_all(exp.With)]
        self._bodies: dict[int, str] = {}
        """What stands for each CTE that is used, by its identity."""

    def whole(self) -> str:
        pieces = self._written.pieces
        text = self._spliced(pieces[0].start, pieces[-1].end)
        for cte in self._written.tree.find_all(exp.CTE):
            if id(cte) not in self._bodies:
                raise refuse(f"the CTE {cte.alias} is not used")
        return text

    def _spliced(self, start: int, end: int) -> str:
        """The characters from `start` to `end`, whose WITH clauses are removed."""
        withs = [each for each in self._withs if start <= each.start and each.end <= end]
        edits = [each for each in withs if not any(other.start < each.start < other.end for other in withs)]
        for table in self._written.tree.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier) or not is_named(table):
                continue
            at = self._written.pieces[self._written.place(table.parts[0])].start
            if start <= at < end and not any(each.start <= at < each.end for each in withs):
                edits += self._mention(table)
        found = spliced(self._written.text, start, end, edits)
        if len(found) > CHARACTERS_MAX:
            raise refuse(f"with its views and CTEs it has more than {CHARACTERS_MAX} characters")
        return found

    # --- WITH

    def _clause(self, with_: exp.With) -> Edit:
        """Removes a WITH clause."""
        written = self._written
        if with_.args.get("recursive"):
            raise refuse("it has a recursive CTE")
        names = [cte.alias.lower() for cte in with_.expressions]
        if len(set(names)) != len(names):
            raise refuse("two CTEs have the same name")
        first = written.place(with_.expressions[0].args["alias"].this)
        if written.word(first - 1) != "with":
            raise refuse("WITH is not understood")
        end = self._brackets(with_.expressions[-1])[1]
        return Edit(written.pieces[first - 1].start, written.pieces[end].end, "")

    def _brackets(self, cte: exp.CTE) -> tuple[int, int]:
        """The places of the brackets around the query of a CTE."""
        written = self._written
        if other_part(cte, "this", "alias"):
            raise refuse("a CTE is not understood")
        place = written.place(cte.args["alias"].this) + 1
        if written.symbol(place) == "(" and alias_columns(cte):
            place = written.partner[place] + 1
        place += 1 if written.word(place) == "as" else 0
        if written.symbol(place) != "(":
            raise refuse("a CTE is not understood")
        return place, written.partner[place]

    # --- mentions

    def _mention(self, table: exp.Table) -> list[Edit]:
        """What stands for a mention of a relation."""
        pieces, written = self._written.pieces, self._written
        start = pieces[written.place(table.parts[0])].start
        end = pieces[written.place(table.parts[-1])].end
        cte = self._ctes.meant(table)
        if cte is not None:
            return self._derived(table, start, end, self._body(cte), alias_columns(cte))
        name = _name(table, self._namespace)
        if name in self._queries:
            self._check_columns(name, table)
            return self._derived(table, start, end, self._queries.of(name), ())
        if not self._within:
            return []
        if name.path:
            raise refuse(f"it reads from the path {name.path}")
        return [Edit(start, end, name.quoted)]

    def _body(self, cte: exp.CTE) -> str:
        if id(cte) not in self._bodies:
            start, end = self._brackets(cte)
            pieces = self._written.pieces
            self._bodies[id(cte)] = self._spliced(pieces[start + 1].start, pieces[end - 1].end)
        return self._bodies[id(cte)]

    def _derived(self, table: exp.Table, start: int, end: int, body: str, columns: Sequence[str]) -> list[Edit]:
        """A query in place of a name."""
        if strange := other_part(table, "this", "db", "catalog", "alias"):
            raise refuse(f"{table.name} has {strange.upper()}")
        listed = f"({', '.join(map(quote, columns))})" if columns else ""
        alias = table.args.get("alias")
        if alias is None or alias.this is None:
            return [Edit(start, end, f"({body}) AS {quote(table.name)}{listed}")]
        if alias_columns(table) or not listed:
            return [Edit(start, end, f"({body})")]
        after = self._written.pieces[self._written.place(alias.this)].end
        return [Edit(start, end, f"({body})"), Edit(after, after, listed)]

    def _check_columns(self, name: TableName, table: exp.Table) -> None:
        """Columns that are qualified with the view's database would not be found in its query."""
        if table.alias:
            return
        full = [name.database, name.table]
        for column in self._written.tree.find_all(exp.Column):
            parts = [part.name.lower() for part in column.parts]
            if len(parts) > 2 and full in (parts[:2], parts[1:3]):
                raise refuse(f"a column is qualified with its database: {'.'.join(parts)}")
