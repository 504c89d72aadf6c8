"""Runs samples through Spark's parser and the gateway's, and shortens texts that show a miss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from oracle.comparison import Comparison, Ours, SparkReading, fold, misses
from oracle.mutation import Sample, Texts, pieces
from oracle.plans import Plan, read

from sql.statement import Forwarded

_BATCH = 400
"""The number of samples per call of the JVM."""
_TRIES_MAX = 600
"""The maximum number of texts that are tried to shorten one."""


@dataclass
class Found:
    """A text in which the gateway misses something."""

    sample: Sample
    what: list[str]
    shortest: str = ""

    @property
    def kind(self) -> str:
        return kind_of(self.what[0])


@dataclass
class Outcome:
    counts: Counter[str] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.counts += other.counts
        self.found += other.found


def kind_of(miss: str) -> str:
    return miss.split(":", maxsplit=1)[0]


def outcomes(samples: Iterable[Sample]) -> Iterator[Outcome]:
    """The outcomes of the samples, batch by batch."""
    remaining = iter(samples)
    while batch := list(islice(remaining, _BATCH)):
        outcome = Outcome()
        plans = read([sample.text for sample in batch], [sample.settings for sample in batch])
        for sample, plan in zip(batch, plans, strict=True):
            _note(outcome, sample, plan)
        yield outcome


def _note(outcome: Outcome, sample: Sample, plan: Plan) -> None:
    counts = outcome.counts
    counts["texts"] += 1
    if not plan.accepted:
        counts[f"refused by Spark: {plan.root}"] += 1
        return
    counts["accepted by Spark"] += 1
    comparison = Comparison(plan, sample.text)
    if what := comparison.misses():
        counts[f"MISSED: {kind_of(what[0])}"] += 1
        outcome.found.append(Found(sample, what))
    more = comparison.spurious()
    counts["understood exactly"] += more is not None
    counts["understood exactly, with a name that Spark does not see"] += bool(more)


def shorten(found: Found) -> None:
    """Removes parts of the text as long as the same kind of miss remains."""
    settings, kind, tries = found.sample.settings, found.kind, 0

    def shows(text: str) -> bool:
        plan = read([text], settings)[0]
        return plan.accepted and any(kind_of(miss) == kind for miss in misses(text, plan))

    left = pieces(found.sample.text)
    size = max(1, len(left) // 2)
    while size and tries < _TRIES_MAX:
        place, shorter = 0, False
        while place < len(left) and tries < _TRIES_MAX:
            without = left[:place] + left[place + size :]
            tries += 1
            if shows("".join(without)):
                left, shorter = without, True
            else:
                place += size
        if not shorter or size > 1:
            size //= 2
    found.shortest = "".join(left)


def description(found: Found, seed: int) -> str:
    """Describes a miss for a person."""
    text, settings = found.shortest or found.sample.text, found.sample.settings
    plan = read([text], settings)[0]
    spark, statement = SparkReading(plan), Ours(text).statement
    lines = [f"{'; '.join(misses(text, plan) or found.what)}", f"  text   {text!r}"]
    lines.append(f"  with   {settings}")
    lines.append(f"  Spark  {plan.root}: reads {sorted(spark.reads)} writes {sorted(spark.writes)}")
    if isinstance(statement, Forwarded):
        reads = sorted({fold(reference.parts) for reference in statement.reads})
        exact = "exact" if statement.exact else f"not exact ({statement.reason})"
        lines.append(f"  ours   {exact}: reads {reads[:12]} writes {sorted(map(fold, statement.writes))[:12]}")
    else:
        lines.append(f"  ours   {statement!r}")
    lines.append(f"  again  scripts/fuzz --sql 1 --seed {seed} --first {found.sample.number}")
    return "\n".join(lines)


def run(texts: Texts, numbers: Iterable[int], on_batch: Callable[[Outcome], bool]) -> Outcome:
    """Runs the samples with these numbers until `on_batch` returns False."""
    whole = Outcome()
    for outcome in outcomes(texts.sample(number) for number in numbers):
        whole.add(outcome)
        if not on_batch(outcome):
            break
    return whole
