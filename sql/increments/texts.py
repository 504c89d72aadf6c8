"""The queries of a refresh by rows, spliced from the definition's own text. They mean the same in every session that
has the SQL settings of the view's creator.

Tests: `test_increment_mutants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from sql.increments.named_keys import NamedKeys
from sql.increments.outline import GROUPING, SHOWN, Groups, Outline
from sql.increments.states import COUNT, AggregateState
from sql.increments.templates import Aggregate, Template, is_key, rendered
from sql.increments.terms import ChangeTerm, paired
from sql.increments.written import Edit
from sql.names import quote
from sql.texts.additions import REMOVED

_NONE: Mapping[int, str] = {}
_GROUPING_ID = "CAST(grouping_id() AS BIGINT)"
_LISTED = ", ".join


def rows(outline: Outline, term: ChangeTerm) -> str:
    """ROWS: the view's columns of one term."""
    return _rows(outline, term.branch, _sources(outline, term))


def appended(outline: Outline, terms: Sequence[ChangeTerm]) -> str:
    """ROWS: the rows of all terms."""
    if not terms or any(term.removes for term in terms):
        raise ValueError("rows can only be appended")
    texts = [rows(outline, term) for term in terms]
    return texts[0] if len(texts) == 1 else " UNION ALL ".join(f"({text})" for text in texts)


def gathered(query: str, hint: str) -> str:
    """The same rows, distributed to tasks as the hint says."""
    return f"SELECT /*+ {hint} */ * FROM ({query}) AS `freshgate_gathered`"


def whole(outline: Outline, sources: Mapping[int, str]) -> str:
    """ROWS: the definition over these sources of all places."""
    texts = [_rows(outline, branch, sources) for branch in range(len(outline.branches))]
    return texts[0] if len(texts) == 1 else " UNION ALL ".join(f"({text})" for text in texts)


def described(outline: Outline, sources: Mapping[int, str]) -> str:
    """The rows of the definition as they were read from its text, without anything that is stored beside them."""
    groups = outline.groups
    if groups is None or groups.layers is not None:
        return whole(outline, sources)
    if groups.distinct is not None:
        return _grouped_rows(outline, [*map(quote, outline.columns)], sources)
    text = _over_body(outline, [_written(groups, item) for item in groups.items], sources)
    return f"{text} HAVING {_written(groups, groups.having)}" if groups.having is not None else text


def complete(outline: Outline, sources: Mapping[int, str] = _NONE, only: NamedKeys | None = None) -> str:
    """GROUPS: the definition's items, then the hidden columns. With HAVING, all groups; if they do not fulfil it, items
    other than keys are NULL. `sources`: as in `ChangeTerm`. `only`: the rows may be left out that have other keys."""
    groups = _groups(outline)
    if groups.layers is not None:
        part, edits = outline.branches[0], (*_edits(outline, sources), *groups.layers, *_restricted(groups, only))
        names = _LISTED(map(quote, (*outline.columns, *outline.hidden)))
        return f"SELECT * FROM ({outline.spliced(part.start, part.end, edits)}) AS `freshgate_rows`({names})"
    if groups.distinct is not None:
        return _grouped_rows(outline, [*map(quote, outline.columns), f"count(*) AS {quote(COUNT)}"], sources)
    having = _written(groups, groups.having) if groups.having is not None else ""
    visible = [
        f"{_guarded(_written(groups, item), item, having)} AS {quote(column)}"
        for column, item in zip(outline.columns, groups.items, strict=True)
    ]
    hidden = [f"{text} AS {quote(name)}" for name, text in _hidden_texts(groups) if name not in groups.visible]
    shown = [f"coalesce({having}, false) AS {quote(SHOWN)}"] if having else []
    return _over_body(outline, [*visible, *hidden, *shown], sources, _restricted(groups, only))


def merged(outline: Outline, stored: str, terms: Sequence[ChangeTerm]) -> str:
    """GROUPS: the view's columns and the hidden ones after the terms. `stored`: a query of all stored rows."""
    groups = _groups(outline)
    names = _state_names(groups)
    parts = [_stored_states(groups, stored), *_change_states(outline, groups, terms)]
    keys = _key_names(groups)
    states = [f"{state.merged} AS {quote(state.name)}" for state in groups.states]
    summed = f"SELECT {_LISTED([*map(quote, keys), *states])} FROM ({' UNION ALL '.join(parts)}) AS `freshgate_parts`"
    if keys:
        summed += f" GROUP BY {_LISTED(map(quote, keys))}{_vanishing(terms)}"
    having = _final(groups, groups.having) if groups.having is not None else ""
    visible = [
        f"{_guarded(_final(groups, item), item, having)} AS {quote(column)}"
        for column, item in zip(outline.columns, groups.items, strict=True)
    ]
    hidden = [f"{quote(name)} AS {quote(column)}" for name, column in names.items() if column in outline.hidden]
    shown = [f"coalesce({having}, false) AS {quote(SHOWN)}"] if having else []
    return f"SELECT {_LISTED([*visible, *hidden, *shown])} FROM ({summed}) AS `freshgate_groups`"


def subtracted(outline: Outline, stored: str, terms: Sequence[ChangeTerm], floats: Mapping[str, str]) -> str:
    """ROWS: the rows of the view after terms of which some remove rows. `stored`: a query of all stored rows. A removed
    row may be one of the added ones; of equal rows, as many are left as the numbers say. Rows that cannot equal a
    removed one are only copied. `floats`: the types of columns in which equal values may differ: 0.0 and -0.0."""
    added = [rows(outline, term) for term in terms if not term.removes]
    removed = " UNION ALL ".join(f"({rows(outline, term)})" for term in terms if term.removes)
    names = _LISTED(map(quote, outline.columns))
    gone = f"SELECT * FROM ({removed}) AS `freshgate_removed`({names})"
    some = f"SELECT * FROM ({stored}) AS `freshgate_rows`({names})"
    columns, values = _told(outline, terms) or (outline.columns, gone)
    others, touched = (_half_joined(some, values, columns, kind) for kind in ("ANTI", "SEMI"))
    present = " UNION ALL ".join(f"({text})" for text in (touched, *added))
    if not floats:
        return f"({others}) UNION ALL (({present}) EXCEPT ALL ({gone}))"
    # The texts of 0.0 and -0.0 differ, and each number is that of its text.
    texts = (
        f"SELECT {_cast(outline, dict.fromkeys(floats, 'STRING'))} FROM ({each}) AS `freshgate_texts`({names})"
        for each in (present, gone)
    )
    left = "({}) EXCEPT ALL ({})".format(*texts)
    return f"({others}) UNION ALL (SELECT {_cast(outline, floats)} FROM ({left}) AS `freshgate_left`)"


def _cast(outline: Outline, types: Mapping[str, str]) -> str:
    """The view's columns, some as other types."""
    return _LISTED(
        f"CAST({quote(name)} AS {types[name]}) AS {quote(name)}" if name in types else quote(name)
        for name in outline.columns
    )


def _told(outline: Outline, terms: Sequence[ChangeTerm]) -> tuple[list[str], str] | None:
    """Columns of the view, and a query of the values that removed rows have there, if the removed rows of one table
    tell them and are joined by one of them, so that few others have these values."""
    removing = [term for term in terms if term.removes]
    if len(removing) != 1 or removing[0].place is None:
        return None
    place = outline.places[removing[0].place]
    pairs = zip(outline.columns, outline.origins, strict=False)
    found = {column: origin[1] for column, origin in pairs if origin is not None and origin[0] == place.start}
    items = _LISTED(f"{quote(own)} AS {quote(column)}" for column, own in found.items())
    rows = f"SELECT DISTINCT {items} FROM ({removing[0].sources[place.number]}) AS `freshgate_changed`"
    return ([*found], rows) if set(place.joined) & set(found.values()) else None


def touched(outline: Outline, terms: Sequence[ChangeTerm]) -> str:
    """GROUPS: the keys of all groups of which the terms have rows, and perhaps of others, by their names while states
    are merged."""
    texts = " UNION ALL ".join(f"(SELECT {_touched(outline, _united(*each))})" for each in paired(terms))
    return f"SELECT DISTINCT * FROM ({texts}) AS `freshgate_keys`"


def _touched(outline: Outline, term: ChangeTerm) -> str:
    """What follows SELECT. If all keys are columns of the table that has changed, no other one is read."""
    groups = _groups(outline)
    names = [quote(key.name(number)) for number, key in enumerate(groups.keys)]
    place = None if term.place is None else outline.places[term.place]
    own = [key.origin[1] for key in groups.keys if place is not None and key.origin and key.origin[0] == place.start]
    if place is not None and len(own) == len(names):
        items = (f"{quote(column)} AS {name}" for column, name in zip(own, names, strict=True))
        return f"{_LISTED(items)} FROM ({term.sources[place.number]}) AS `freshgate_changed`"
    items = (f"{key.text} AS {name}" for key, name in zip(groups.keys, names, strict=True))
    return f"{_LISTED(items)} {outline.spliced(*groups.body, _edits(outline, _sources(outline, term)))}"


def few_touched(outline: Outline, terms: Sequence[ChangeTerm], most: int) -> str:
    """Rows of the keys as strings, then their types, of the touched groups; no more than one beyond `most`."""
    names = [quote(key.name(number)) for number, key in enumerate(_groups(outline).keys)]
    items = [*(f"CAST({name} AS STRING)" for name in names), *(f"typeof({name})" for name in names)]
    return f"SELECT {_LISTED(items)} FROM ({touched(outline, terms)}) LIMIT {most + 1}"


def regrouped(
    outline: Outline,
    stored: str,
    terms: Sequence[ChangeTerm],
    sources: Mapping[int, str],
    named: NamedKeys | None = None,
) -> str:
    """GROUPS: the view's columns and the hidden ones, of which only groups that the terms touch are computed from all
    rows of the base tables, and the others are as they are stored. `sources`: the new states of all places. `named`:
    the keys of these groups, if they are known."""
    groups = _groups(outline)
    keys = touched(outline, terms) if named is None else named.rows
    columns = [key.column for key in groups.keys]
    listed = _LISTED(map(quote, (*outline.columns, *outline.hidden)))
    names = [key.name(number) for number, key in enumerate(groups.keys)]
    others = _half_joined(f"SELECT {listed} FROM ({stored}) AS `freshgate_stored`", keys, columns, "ANTI", names)
    again = _half_joined(complete(outline, sources, named), keys, columns, "SEMI", names)
    return f"({others}) UNION ALL ({again})"


def _half_joined(left: str, right: str, columns: Sequence[str], kind: str, names: Sequence[str] = ()) -> str:
    """The rows of `left` that have (SEMI), or do not have (ANTI) an equal one among the few of `right`; also NULLs are
    equal. `names`: the columns of `right`, if they have other names."""
    pairs = zip(columns, names or columns, strict=True)
    equal = " AND ".join(f"`freshgate_l`.{quote(mine)} <=> `freshgate_r`.{quote(its)}" for mine, its in pairs)
    return (
        f"SELECT /*+ BROADCAST(freshgate_r) */ `freshgate_l`.* FROM ({left}) AS `freshgate_l` "
        f"LEFT {kind} JOIN ({right}) AS `freshgate_r` ON {equal}"
    )


# --- rows ----------------------------------------------------------------------------------------------


def _sources(outline: Outline, term: ChangeTerm) -> dict[int, str]:
    empty = {number: outline.places[number].nothing(term.sources.get(number)) for number in term.empty}
    return {**term.sources, **empty}


def _edits(outline: Outline, sources: Mapping[int, str]) -> list[Edit]:
    edits = [place.edit(sources.get(place.number)) for place in outline.places]
    if outline.groups is not None and outline.groups.distinct is not None:
        edits.append(Edit(*outline.groups.distinct, ""))
    return edits


def _rows(outline: Outline, branch: int, sources: Mapping[int, str]) -> str:
    """The rows of one branch, before they are grouped by DISTINCT."""
    edits, part = _edits(outline, sources), outline.branches[branch]
    text = outline.spliced(part.start, part.end, edits)
    if not part.casts:
        return text
    casts = (f"CAST({quote(name)} AS {kind})" for name, kind in zip(outline.columns, part.casts, strict=True))
    return f"SELECT {_LISTED(casts)} FROM ({text}) AS `freshgate_rows`({_LISTED(map(quote, outline.columns))})"


def _grouped_rows(outline: Outline, items: Sequence[str], sources: Mapping[int, str]) -> str:
    names = _LISTED(map(quote, outline.columns))
    text = _rows(outline, 0, sources)
    return f"SELECT {_LISTED(items)} FROM ({text}) AS `freshgate_rows`({names}) GROUP BY {names}"


# --- groups --------------------------------------------------------------------------------------------


def _groups(outline: Outline) -> Groups:
    if outline.groups is None:
        raise ValueError("the view has no groups")
    return outline.groups


def _guarded(text: str, item: Template, having: str) -> str:
    """The item, computed only for groups that are shown. A key is there for all: it may tell the partition."""
    return f"CASE WHEN {having} THEN {text} END" if having and not is_key(item) else text


def _written(groups: Groups, template: Template) -> str:
    """The expression over the definition's rows."""
    return rendered(template, lambda number: groups.keys[number].text, lambda aggregate: aggregate.text)


def _final(groups: Groups, template: Template) -> str:
    """The expression over merged states."""
    key: Callable[[int], str] = lambda number: quote(groups.keys[number].name(number))  # noqa: E731
    aggregate: Callable[[Aggregate], str] = lambda each: _operand(groups.finals[each])  # noqa: E731
    return rendered(template, key, aggregate)


def _operand(text: str) -> str:
    return text if text.count("`") == 2 and text[0] == text[-1] == "`" else f"({text})"


def _key_names(groups: Groups) -> list[str]:
    """The keys while states are merged."""
    names = [key.name(number) for number, key in enumerate(groups.keys)]
    return [*([GROUPING] if groups.sets else []), *names]


def _state_names(groups: Groups) -> dict[str, str]:
    """The columns while states are merged, with those that store them, in the order of the hidden columns."""
    found = {GROUPING: GROUPING} if groups.sets else {}
    found |= {key.name(number): key.column for number, key in enumerate(groups.keys)}
    return found | {state.name: state.column for state in groups.states}


def _hidden_texts(groups: Groups) -> Iterator[tuple[str, str]]:
    """The hidden columns over the definition's rows, and the visible states."""
    if groups.sets:
        yield GROUPING, _GROUPING_ID
    for key in groups.keys:
        if key.hidden:
            yield key.column, key.text
    for state in groups.states:
        yield state.column, state.text


def _restricted(groups: Groups, only: NamedKeys | None) -> Sequence[Edit]:
    """What restricts the body to rows with some of the keys: constants, by which Spark leaves out files."""
    if only is None:
        return ()
    conditions = " AND ".join(f"({only.condition(number, key.text)})" for number, key in enumerate(groups.keys))
    end, where = groups.body[1], groups.condition
    if where is None:
        return [Edit(end, end, f" WHERE {conditions}")]
    return [Edit(where, where, "("), Edit(end, end, f") AND {conditions}")]


def _over_body(
    outline: Outline, items: Sequence[str], sources: Mapping[int, str], restricted: Sequence[Edit] = ()
) -> str:
    groups = _groups(outline)
    body = outline.spliced(*groups.body, [*_edits(outline, sources), *restricted])
    grouping = f" GROUP BY {groups.grouping}" if groups.grouping else ""
    return f"SELECT {_LISTED(items)} {body}{grouping}"


def _stored_states(groups: Groups, stored: str) -> str:
    items = (f"{quote(column)} AS {quote(name)}" for name, column in _state_names(groups).items())
    return f"SELECT {_LISTED(items)} FROM ({stored}) AS `freshgate_stored`"


def _vanishing(terms: Sequence[ChangeTerm]) -> str:
    """A group without rows is gone."""
    return f" HAVING sum({quote(COUNT)}) > 0" if any(term.removes for term in terms) else ""


def _united(term: ChangeTerm, other: ChangeTerm | None) -> ChangeTerm:
    """The rows of both terms of a place in one, which tells no longer which were removed."""
    if other is None or term.place is None:
        return term
    return replace(term, sources={**term.sources, term.place: _both(term, other, term.place)})


def _both(term: ChangeTerm, other: ChangeTerm, place: int, *, signed: bool = False) -> str:
    """The changed rows of a place. `signed`: with a column that tells which were removed."""
    if signed and term.signed:
        return term.signed
    items = (f", {word} AS {quote(REMOVED)}" if signed else "" for word in ("false", "true"))
    texts = (
        f"SELECT *{item} FROM ({each.sources[place]}) AS `freshgate_changed`"
        for item, each in zip(items, (term, other), strict=True)
    )
    return " UNION ALL ".join(texts)


def _change_states(outline: Outline, groups: Groups, terms: Sequence[ChangeTerm]) -> Iterator[str]:
    """The states of the terms. Where rows were added to a place and others removed, everything is read once for both
    if that is possible, and spares anything."""
    joined = len(outline.places) > len(outline.branches)
    for term, other in paired(terms):
        if other is not None and (joined or term.signed) and _can_be_signed(outline, groups, term):
            assert term.place is not None
            sources = {**term.sources, term.place: _both(term, other, term.place, signed=True)}
            yield _signed_states(outline, groups, replace(term, sources=sources))
            continue
        yield _term_states(outline, groups, term)
        if other is not None:
            yield _term_states(outline, groups, other)


def _can_be_signed(outline: Outline, groups: Groups, term: ChangeTerm) -> bool:
    """Whether the groups of a term can be computed with a further column of its place as a key."""
    return term.place is not None and outline.places[term.place].direct and groups.distinct is None and not groups.sets


def _signed_states(outline: Outline, groups: Groups, term: ChangeTerm) -> str:
    """The states of a term whose rows have a column that tells which are to be subtracted."""
    if not outline.subtracts:
        raise ValueError("rows cannot be subtracted")
    texts = [*(key.text for key in groups.keys), *(state.text for state in groups.states), quote(REMOVED)]
    names = [*_state_names(groups), REMOVED]
    items = [f"{each} AS {quote(name)}" for each, name in zip(texts, names, strict=True)]
    grouping = ", ".join(filter(None, [groups.grouping, quote(REMOVED)]))
    body = outline.spliced(*groups.body, _edits(outline, _sources(outline, term)))
    signed = (
        f"CASE WHEN {quote(REMOVED)} THEN -{quote(state.name)} ELSE {quote(state.name)} END AS {quote(state.name)}"
        for state in groups.states
    )
    listed = _LISTED([*map(quote, _key_names(groups)), *signed])
    return f"SELECT {listed} FROM (SELECT {_LISTED(items)} {body} GROUP BY {grouping}) AS `freshgate_term`"


def _term_states(outline: Outline, groups: Groups, term: ChangeTerm) -> str:
    """The states of a term's rows, negative if these are to be subtracted."""
    if term.removes and not outline.subtracts:
        raise ValueError("rows cannot be subtracted")
    names = list(_state_names(groups))
    if groups.distinct is not None:
        keys = [f"{quote(column)} AS {quote(name)}" for column, name in zip(outline.columns, names, strict=False)]
        text = _grouped_rows(outline, [*keys, f"count(*) AS {quote(COUNT)}"], _sources(outline, term))
    else:
        keys = [_GROUPING_ID] if groups.sets else []
        texts = [*keys, *(key.text for key in groups.keys), *(state.text for state in groups.states)]
        items = [f"{each} AS {quote(name)}" for each, name in zip(texts, names, strict=True)]
        text = _over_body(outline, items, _sources(outline, term))
    items = [*map(quote, _key_names(groups)), *(_signed(state, term.removes) for state in groups.states)]
    return f"SELECT {_LISTED(items)} FROM ({text}) AS `freshgate_term`"


def _signed(state: AggregateState, removes: bool) -> str:
    return f"-{quote(state.name)} AS {quote(state.name)}" if removes else quote(state.name)
