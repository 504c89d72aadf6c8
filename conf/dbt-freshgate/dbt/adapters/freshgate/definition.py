"""What a model says about its materialized view, as clauses of CREATE, and compared with the view that exists."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from dbt.adapters.contracts.relation import RelationConfig
from dbt_common.exceptions import CompilationError

RECORD = "dbt.definition"
"""The property of a view that holds the model's definition at the last run that created or altered the view."""
METHODS = ("AUTO", "COMPLETE", "INCREMENTAL", "INCREMENTAL FALLBACK")
WHEN_STALE = ("REFRESH", "SERVE", "INLINE", "FAIL")
SEPARATE = {"SCHEDULE": "schedule ", "LAG": ""}
"""The triggers that have a clause of their own, and how it begins."""
UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
TRIGGERS = {"manual": "MANUAL", "commit": "COMMIT"}
REASONS = {
    "query": "its query has changed",
    "layout": "the layout of its rows has changed",
    "columns": "the descriptions of its columns have changed",
}
"""What only CREATE OR REPLACE can change, by the key in the record."""
CLAUSES = {
    "schedule": "a schedule such as `every 1 hour` or `cron '0 4 * * *' at time zone 'UTC'`",
    "refresh_on": f"one of {', '.join(TRIGGERS)}",
    "target_lag": "a time such as `10 minutes`, or downstream",
    "at_most_every": "a time such as `5 minutes`",
    "refresh_method": f"one of {', '.join(METHODS).lower()}",
    "when_stale": f"one of {', '.join(WHEN_STALE).lower()}",
}

_TOKEN = re.compile(r"'(?:''|\\.|[^'\\])*'|\"(?:\"\"|\\.|[^\"\\])*\"|[^\s'\"]+", re.DOTALL)
_SQL_TOKEN = re.compile(
    r"""'(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `[^`]*` | (?P<gap>(?:\s | --[^\n]* | /\*(?!\+)(?:(?!/\*).)*?\*/)+)""",
    re.DOTALL | re.VERBOSE,
)
_UNSAFE = re.compile(r"\b[rR]['\"]|/\*(?:(?!\*/).)*/\*", re.DOTALL)
"""Raw strings and nested comments, which `_SQL_TOKEN` does not read as Spark does."""


def literal(text: str) -> str:
    """The text as a string literal of Spark's."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fingerprint(query: str) -> str:
    """The same for queries that differ only in blanks, line breaks and comments outside of strings and names."""
    if _UNSAFE.search(query) is None:
        query = _SQL_TOKEN.sub(lambda found: found[0] if found["gap"] is None else " ", query)
    return hashlib.md5(query.strip().rstrip(";").rstrip().encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Refreshing:
    """How and when the view is refreshed."""

    method: str
    trigger: str | None
    schedule: str
    """What follows the trigger, in the gateway's own spelling; with the trigger LAG, the whole clause."""

    def described(self) -> str:
        """As DESCRIBE EXTENDED shows it."""
        if self.trigger == "LAG":
            return f"REFRESH {self.method} {self.schedule}"
        return f"REFRESH {self.method} ON {self.trigger or 'MANUAL'}{self.schedule and f' {self.schedule}'}"

    def clauses(self) -> Iterator[str]:
        """The clauses of CREATE."""
        yield self._refresh()
        if self.trigger in SEPARATE:
            yield f"{SEPARATE[self.trigger]}{_requoted(self.schedule)}"

    def changes(self) -> Iterator[str]:
        """What follows ALTER MATERIALIZED VIEW and the name, each in a statement of its own."""
        if self.trigger == "SCHEDULE":
            yield f"alter schedule {_requoted(self.schedule)}"
        elif self.trigger == "LAG":
            yield _requoted(self.schedule)
        elif self.trigger is None:
            yield "drop schedule"
        yield self._refresh()

    def _refresh(self) -> str:
        """Names the method even if it is the default, because without it ALTER keeps the one of before."""
        on = "" if self.trigger is None or self.trigger in SEPARATE else f" on {self.trigger.lower()}"
        pace = f" {_requoted(self.schedule)}" if on and self.schedule else ""
        return f"refresh {self.method.lower()}{on}{pace}"


@dataclass(frozen=True)
class Definition:
    """The settings of a model. Equal definitions make equal views."""

    query: str
    """The fingerprint of the query."""
    layout: tuple[str, ...]
    """The clauses about the stored rows, which only CREATE OR REPLACE can change."""
    columns: tuple[tuple[str, str], ...]
    """The names and comments of documented columns, if they are to be stored."""
    comment: str | None
    """None: the comment is not the model's."""
    refreshing: Refreshing
    properties: Mapping[str, str]

    @classmethod
    def of(cls, model: RelationConfig, query: str) -> Definition:
        """Reads a model's settings. Raises CompilationError, which names the setting."""
        config = Settings(model)
        persisted = config.get("persist_docs") or {}
        return cls(
            query=fingerprint(query),
            layout=tuple(_layout(config)),
            columns=_documented(model) if persisted.get("columns") else (),
            comment=(model.description or "") if persisted.get("relation") else None,
            refreshing=_refreshing(config),
            properties=_properties(config),
        )

    @property
    def when_stale(self) -> str:
        """What a read of the stale view does: a trigger changes the default."""
        return self.properties.get("when_stale") or ("SERVE" if self.refreshing.trigger else "REFRESH")

    def record(self) -> str:
        """The text of the property RECORD."""
        kept = {
            "query": self.query,
            "layout": self.layout,
            "columns": self.columns,
            "comment": self.comment,
            "refresh": [self.refreshing.method, self.refreshing.trigger, self.refreshing.schedule],
            "properties": self.properties,
        }
        return json.dumps(kept, sort_keys=True)

    def clauses(self, column_names: Sequence[str]) -> str:
        """What stands between the name and AS. `column_names`: all columns of the query if some are documented."""
        lines = [_column_list(column_names, dict(self.columns))] if self.columns else []
        lines += [*self.refreshing.clauses(), *self.layout]
        if self.comment is not None:
            lines.append(f"comment {literal(self.comment)}")
        return "\n".join([*lines, _tblproperties({**self.properties, RECORD: self.record()})])


class Settings:
    """The settings of a model, whose values are checked as far as a clause is made of them."""

    def __init__(self, model: RelationConfig) -> None:
        self._model = model

    @property
    def identifier(self) -> str:
        return self._model.identifier

    def get(self, name: str) -> Any:
        return self._model.config.get(name)  # type: ignore[union-attr]

    def names(self, name: str) -> list[str]:
        """A list of columns or expressions; a single one may be written without a list."""
        value = self.get(name)
        if value is None:
            return []
        return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]

    def word(self, name: str, allowed: Sequence[str]) -> str | None:
        """One of the allowed words, or None."""
        value = self.get(name)
        if value is None:
            return None
        word = " ".join(str(value).split())
        found = next((each for each in allowed if each.casefold() == word.casefold()), None)
        if found is None:
            raise self.refusal(name, value)
        return found

    def refusal(self, name: str, value: object) -> CompilationError:
        return CompilationError(f"{self.identifier}: `{name}` is {value!r}, but must be {CLAUSES[name]}")


def check_names(model: RelationConfig, known: Sequence[str]) -> None:
    """Raises CompilationError for a setting that has no effect and looks like one of `known`. Others are the user's."""
    own: Mapping[str, Any] = getattr(model.config, "_extra", {})
    for name in own.keys() - set(known):
        if meant := get_close_matches(name, known, n=1, cutoff=0.8):
            raise CompilationError(
                f"{model.identifier}: `{name}` is not a setting of a model. Do you mean `{meant[0]}`?"
            )


@dataclass(frozen=True)
class Existing:
    """The view that exists, as SHOW TBLPROPERTIES and DESCRIBE EXTENDED show it."""

    properties: Mapping[str, str]
    details: Mapping[str, str]

    @property
    def record(self) -> dict[str, Any] | None:
        """What the adapter recorded; None if something else created the view."""
        try:
            found = json.loads(self.properties[RECORD])
        except (KeyError, ValueError):
            return None
        return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class Changes:
    """What must change for a view to be what its model says."""

    replaced: tuple[str, ...]
    """Why the view must be replaced. Empty: the statements suffice."""
    statements: tuple[str, ...]
    """What follows ALTER MATERIALIZED VIEW and the name, each in a statement of its own."""
    altered: tuple[str, ...] = ()
    """What the statements change."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the model says that the view does not, for people."""
        return self.replaced + self.altered


def changes(wanted: Definition, existing: Existing) -> Changes | None:
    """The changes, or None if there are none."""
    record = existing.record
    if record is None:
        return Changes(("dbt did not create it",), ())
    now = json.loads(wanted.record())
    replaced = tuple(reason for name, reason in REASONS.items() if record.get(name) != now[name])
    alterations = list(_alterations(wanted, existing, record, now))
    statements = tuple(statement for _, statement in alterations)
    altered = tuple(dict.fromkeys(reason for reason, _ in alterations if reason))
    return Changes(replaced, statements, altered) if replaced or statements else None


def _alterations(
    wanted: Definition, existing: Existing, record: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """What ALTER can change, whether the model has changed or someone has altered the view: the difference, for people
    (empty: only the adapter's record), and the statement."""
    known = dict(record.get("properties") or {})
    gone = sorted((known.keys() - wanted.properties.keys()) & existing.properties.keys())
    if gone:
        yield (
            f"properties removed: {', '.join(gone)}",
            f"unset tblproperties if exists ({', '.join(map(literal, gone))})",
        )
    if record.get("refresh") != now["refresh"] or _differ(wanted, existing):
        for statement in wanted.refreshing.changes():
            yield "its schedule, trigger or method has changed", statement
    if wanted.comment is not None and wanted.comment != (existing.details.get("Comment") or ""):
        yield "its comment has changed", f"comment {literal(wanted.comment)}"
    altered = {
        name: value
        for name, value in wanted.properties.items()
        # The gateway stores words of a fixed set in upper case, booleans in lower case.
        if known.get(name) != value or existing.properties.get(name, "").casefold() != value.casefold()
    }
    if altered or existing.properties[RECORD] != wanted.record():
        reason = f"properties changed: {', '.join(sorted(altered))}" if altered else ""
        yield reason, f"set {_tblproperties({**altered, RECORD: wanted.record()})}"


def _differ(wanted: Definition, existing: Existing) -> bool:
    """Whether the trigger or the method differ, or who decides about reads of the stale view."""
    shown = existing.details.get("Refresh", "")
    described = shown[shown.find("REFRESH ") :]
    trigger_given = "when_stale" in wanted.properties or existing.details.get("When Stale") == wanted.when_stale
    # Without a trigger: what reads refresh, and what nothing does.
    described = described.replace(" ON READ", " ON MANUAL")
    return described != wanted.refreshing.described() or not trigger_given


def _refreshing(config: Settings) -> Refreshing:
    method = config.word("refresh_method", METHODS) or METHODS[0]
    given = [name for name in ("schedule", "refresh_on", "target_lag") if config.get(name) is not None]
    if len(given) > 1:
        raise CompilationError(f"`{given[0]}` and `{given[1]}` exclude each other")
    pace = _at_most(config, given[0] if given else "")
    if given == ["schedule"]:
        return Refreshing(method, "SCHEDULE", _spelled(config, str(config.get("schedule"))))
    if given == ["target_lag"]:
        lag = str(config.get("target_lag"))
        age = "DOWNSTREAM" if lag.strip().lower() == "downstream" else _time(config, "target_lag")
        return Refreshing(method, "LAG", f"TARGET LAG {age}{pace and f' {pace}'}")
    word = config.word("refresh_on", tuple(TRIGGERS))
    return Refreshing(method, None if word is None else TRIGGERS[word], pace)


def _at_most(config: Settings, trigger: str) -> str:
    if config.get("at_most_every") is None:
        return ""
    on = str(config.get(trigger)).strip().lower() if trigger else ""
    if trigger not in ("refresh_on", "target_lag") or on in ("manual", "downstream"):
        raise CompilationError("`at_most_every` needs `refresh_on: commit`, or a `target_lag` other than downstream")
    return f"AT MOST EVERY {_time(config, 'at_most_every')}"


def _time(config: Settings, name: str) -> str:
    """A time as DESCRIBE EXTENDED spells it: in the largest unit of which it is a multiple, in double quotes."""
    given = str(config.get(name))
    words = given.lower().split()
    unit = words[1].removesuffix("s") if len(words) == 2 else ""
    if unit not in UNITS or not words[0].isdecimal() or not int(words[0]):
        raise config.refusal(name, given)
    total = int(words[0]) * UNITS[unit]
    unit = next(unit for unit, seconds in UNITS.items() if total % seconds == 0)
    number = total // UNITS[unit]
    return f'"{number} {unit}{"s" * (number != 1)}"'


def _spelled(config: Settings, schedule: str) -> str:
    """The schedule as DESCRIBE EXTENDED spells it: words in upper case, the unit in the singular, double quotes."""
    words = [each if each[0] in "'\"" else each.upper() for each in _TOKEN.findall(schedule)]
    if words[:1] not in (["EVERY"], ["CRON"]) or len(words) < 2:
        raise config.refusal("schedule", schedule)
    if words[0] == "EVERY" and len(words) > 2:
        words[2] = words[2].removesuffix("S")
    texts = [" ".join(word[1:-1].split()) if word[0] in "'\"" else None for word in words]
    if words[0] == "EVERY" and len(words) == 5 and texts[4] is not None:
        texts[4] = _with_seconds(texts[4])
    return " ".join(word if text is None else f'"{text}"' for word, text in zip(words, texts, strict=True))


def _with_seconds(time: str) -> str:
    """`2030-01-31T04:00` as `2030-01-31 04:00:00`, which the gateway shows."""
    day, _, clock = time.replace("T", " ").partition(" ")
    return f"{day} {clock + ':00' * (2 - clock.count(':')) if clock else '00:00:00'}"


def _requoted(schedule: str) -> str:
    """The schedule with string literals that do not depend on Spark's settings."""
    return schedule.replace('"', "'")


def _layout(config: Settings) -> Iterator[str]:
    if partition := config.names("partition_by"):
        yield f"partitioned by ({', '.join(partition)})"
    clustered, buckets = config.names("clustered_by"), config.get("buckets")
    if clustered and buckets is not None:
        ordered = config.names("sorted_by")
        within = f" sorted by ({', '.join(ordered)})" if ordered else ""
        yield f"clustered by ({', '.join(clustered)}){within} into {int(buckets)} buckets"
    if together := config.names("cluster_by"):
        yield f"cluster by ({', '.join(together)})"
    if file_format := config.get("file_format"):
        yield f"using {file_format}"
    if root := config.get("location_root"):
        # As dbt-spark does for tables.
        yield f"location {literal(f'{root}/{config.identifier}')}"


def _properties(config: Settings) -> dict[str, str]:
    given = {str(name): _value(value) for name, value in (config.get("tblproperties") or {}).items()}
    if word := config.word("when_stale", WHEN_STALE):
        given["when_stale"] = word
    if (grace := config.get("grace_period")) is not None:
        given["grace_period"] = _value(grace)
    if (rewrite := config.get("enable_rewrite")) is not None:
        given["use_for_rewrite"] = _value(rewrite)
    if (memory := config.get("in_memory")) is not None:
        given["in_memory"] = _value(memory)
    return given


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _documented(model: RelationConfig) -> tuple[tuple[str, str], ...]:
    columns: Mapping[str, Any] = model.columns  # type: ignore[attr-defined]
    return tuple((name, column.description) for name, column in sorted(columns.items()) if column.description)


def _column_list(names: Sequence[str], comments: Mapping[str, str]) -> str:
    by_name = {name.casefold(): comment for name, comment in comments.items()}
    listed = []
    for name in names:
        comment = by_name.get(name.casefold())
        listed.append(f"`{name.replace('`', '``')}`" + (f" comment {literal(comment)}" if comment else ""))
    return f"({', '.join(listed)})"


def _tblproperties(properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    return f"tblproperties ({pairs})"
