"""Figures, and alternating measurements of two ways."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Work = Callable[[], object]

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6}
"""Units per second."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table. `value` is compared with `limit`: a ratio, a count, a size."""

    measure: str
    subject: str
    value: float
    unit: str
    limit: float | None = None
    direct: str = ""
    gateway: str = ""
    runs: int = 1
    spread: tuple[float, float] | None = None
    """For a ratio, the quartiles of the ratios of the pairs. A wide spread means a noisy machine."""
    at_least: float | None = None
    """A goal that is reached from below, in the place of `limit`."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.limit is None else self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Turns:
    """Seconds of each run: the n-th direct run and the n-th run through the gateway form a pair."""

    direct: Sequence[float]
    gateway: Sequence[float]

    def ratio(self, measure: str, subject: str, limit: float | None, unit: str = "ms") -> Figure:
        """The ratio of the medians, which are shown in `unit`."""
        direct, gateway = statistics.median(self.direct), statistics.median(self.gateway)
        pairs = [mine / theirs for theirs, mine in zip(self.direct, self.gateway, strict=True)]
        quartiles = statistics.quantiles(pairs, n=4, method="inclusive") if len(pairs) > 1 else [pairs[0]] * 3
        return Figure(
            measure,
            subject,
            gateway / direct,
            "ratio",
            limit,
            shown(direct, unit),
            shown(gateway, unit),
            len(pairs),
            (quartiles[0], quartiles[2]),
        )


def in_turn(direct: Work, gateway: Work, runs: int, *, before: Work | None = None, warm_up: int = 1) -> Turns:
    """Runs both ways alternately, `runs` times; every second pair runs in reverse order.

    `before` runs before every run, and is not timed. Each way first runs `warm_up` times without being counted.
    """
    seconds: dict[Work, list[float]] = {direct: [], gateway: []}
    for number in range(-warm_up, runs):
        order = (direct, gateway) if number % 2 == 0 else (gateway, direct)
        for work in order:
            if before is not None:
                before()
            taken = timed(work)
            if number >= 0:
                seconds[work].append(taken)
    return Turns(seconds[direct], seconds[gateway])


def timed(work: Work) -> float:
    """The seconds that the work takes, without garbage collection in the client."""
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began
    finally:
        gc.enable()


def shown(seconds: float, unit: str) -> str:
    """The value with three significant digits, or all digits before the point."""
    value = seconds * UNITS[unit]
    return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"


HEADINGS = ("measure", "subject", "direct", "gateway", "result", "pairs' quartiles", "runs", "target", "")


def table(figures: Iterable[Figure]) -> str:
    """The figures as a Markdown table with aligned columns."""
    rows = [HEADINGS, *(_row(figure) for figure in figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join(f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows)


def _row(figure: Figure) -> tuple[str, ...]:
    value = f"{figure.value:.3f}" if figure.unit == "ratio" else f"{figure.value:.4g} {figure.unit}".rstrip()
    spread = "" if figure.spread is None else "{:.3f} .. {:.3f}".format(*figure.spread)
    target = "" if figure.limit is None else f"<= {figure.limit:g}"
    if figure.at_least is not None:
        target = f">= {figure.at_least:g}"
    verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
    return (
        figure.measure,
        figure.subject,
        figure.direct,
        figure.gateway,
        value,
        spread,
        str(figure.runs),
        target,
        verdict,
    )
