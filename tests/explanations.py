"""What a fake Spark explains of definitions: the same plan for all, with the marks that are in a text."""

from __future__ import annotations

import re

_MARK = re.compile(r"FROM (\S+) AS `(freshgate_place_\d+)`")
_PLANS = """== Parsed Logical Plan ==

== Analyzed Logical Plan ==
a: int
{}
== Optimized Logical Plan ==
Relation t[a#1] {}
== Physical Plan ==
Scan"""


def explained(text: str, format_: str = "parquet") -> str:
    """`format_`: stands for whatever may differ."""
    mentions = [
        f"SubqueryAlias {mark}\n{{}}+- SubqueryAlias {table.replace('`', '')}\n{{}}   +- Relation"
        for table, mark in _MARK.findall(text)
    ]
    if len(mentions) < 2:
        return _PLANS.format("".join(mentions).format("", "") or "Relation", format_)
    lines = [f":- {each.format(':  ', ':  ')}" for each in mentions[:-1]]
    lines.append(f"+- {mentions[-1].format('   ', '   ')}")
    above = "Union false, false" if "UNION ALL" in text else "Join Inner"
    return _PLANS.format("\n".join((above, *lines)), format_)
