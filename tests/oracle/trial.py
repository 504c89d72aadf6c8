"""Samples before Spark's parser and the gateway's readers; a text that shows a miss is shortened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from oracle.comparison import Comparison, Ours, Spark, fold, misses
from oracle.mutation import Sample, Texts, pieces
from oracle.plans import Plan, read

from sql.statement import Forwarded

_BATCH = 400
"""Samples that share a call of the JVM."""
_TRIES_MAX = 600
"""Texts that are looked at to shorten one."""


@dataclass
class Found:
    """One text in which the gateway misses something."""

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


def tried(samples: Iterable[Sample]) -> Iterator[Outcome]:
    """The outcome of some hundred samples at a time."""
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
    """Leaves out pieces of the text as long as the same kind of miss is left."""
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


def told(found: Found, seed: int) -> str:
    """What a person must see of a miss."""
    text, settings = found.shortest or found.sample.text, found.sample.settings
    plan = read([text], settings)[0]
    spark, said = Spark(plan), Ours(text).statement
    lines = [f"{'; '.join(misses(text, plan) or found.what)}", f"  text   {text!r}"]
    lines.append(f"  with   {settings}")
    lines.append(f"  Spark  {plan.root}: reads {sorted(spark.reads)} writes {sorted(spark.writes)}")
    if isinstance(said, Forwarded):
        reads = sorted({fold(reference.parts) for reference in said.reads})
        exact = "exact" if said.exact else f"not exact ({said.reason})"
        lines.append(f"  ours   {exact}: reads {reads[:12]} writes {sorted(map(fold, said.writes))[:12]}")
    else:
        lines.append(f"  ours   {said!r}")
    lines.append(f"  again  scripts/fuzz --sql 1 --seed {seed} --first {found.sample.number}")
    return "\n".join(lines)


def run(texts: Texts, numbers: Iterable[int], on_batch: Callable[[Outcome], bool]) -> Outcome:
    """The samples of these numbers, until `on_batch` says that it is enough."""
    whole = Outcome()
    for outcome in tried(texts.sample(number) for number in numbers):
        whole.add(outcome)
        if not on_batch(outcome):
            break
    return whole
