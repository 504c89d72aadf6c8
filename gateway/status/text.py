"""Renders the status as text for people: aligned columns that fit a width. Pure.

Tests: `test_status`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.status import shared_words as words
from gateway.status.model import DAMAGED, LOADED, RUNNING, ListedGateway, Problem, RefreshTask, Status, View

BAR_CHARACTERS = 10
GAP = "  "
INDENT = "  "
NOTES_CHARACTERS_MIN = 60
"""Notes are in a last column if at least this much width is left, otherwise below their line."""
NAME_CHARACTERS_MIN = 12
"""A name is not shortened below this width, however narrow the terminal."""
ROOM_MIN = 3
"""Minimum lines of a table: its head, one line, and the number of omitted lines."""
NEXT_MAX = 10
"""Maximum number of listed next runs. All of them are shown with their views, and in --json."""
NOTHING = "-"

LEADER, DOOR = "LEADER", "DOOR"
RED, GREEN, YELLOW = "31", "32", "33"
COLOURS = {
    "FRESH": GREEN,
    "FRESH_WITHIN_GRACE": YELLOW,
    "STALE": YELLOW,
    "UNKNOWN": YELLOW,
    DAMAGED: RED,
    "FAILED": RED,
    "FAILING": RED,
    "LATE": YELLOW,
    "PAUSED": YELLOW,
    "SLOW": YELLOW,
    "SUCCESS": GREEN,
    "paused": YELLOW,
    LEADER: GREEN,
    "SUSPECTING": YELLOW,
    "SILENT": RED,
    "SUPERSEDED": RED,
}
TROUBLE = frozenset({"FAILED", "CANCELED"})


@dataclass(frozen=True, slots=True)
class Style:
    """What the output supports; `width` and `height` in characters. `height` None: any number of lines."""

    width: int
    height: int | None = None
    colour: bool = False
    unicode: bool = False

    @property
    def ellipsis(self) -> str:
        return "…" if self.unicode else "..."


@dataclass(frozen=True, slots=True)
class StatusLine:
    """A line of a table and its notes, the most important first."""

    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()
    urgent: bool = False
    """Shown first if there is no room for all lines."""


def render(status: Status, now: datetime, style: Style, source: str) -> list[str]:
    """The lines for the gateway named `source`, none wider than `style.width`: what is wrong first, then what goes on,
    then all views, as the page's menu has them.

    With a height, lines of tables are omitted until the rest fits, those of healthy views first; a line says how many.
    On a terminal of less than twenty lines the output may be longer than the terminal.
    """
    shown = [_cut(f"{source} at {now:%Y-%m-%d %H:%M:%S} UTC", style), _cut(_summary(status), style)]
    shown += [_cut(line, style) for line in _about(status)]
    if len(status.gateways) > 1 or any(each.role != LEADER for each in status.gateways):
        shown += [
            "",
            *_table(GATEWAY_COLUMNS, [_gateway_line(each, now) for each in status.gateways], style, _room(style, 4)),
        ]
    if status.attention:
        lines = [_problem_line(each, now) for each in status.attention]
        shown += ["", *_table(ATTENTION_COLUMNS, lines, style, _room(style, 3), named=1)]
    elif status.attention is not None and status.views:
        shown.append(_cut(words.NOTHING_WRONG, style))
    if status.tasks:
        lines = [_task_line(task, now, style) for task in status.tasks]
        shown += ["", *_table(TASK_COLUMNS, lines, style, _room(style, 4))]
    if status.next:
        most = min(NEXT_MAX + 2, _room(style, 5) or NEXT_MAX + 2)
        shown += ["", *_table(NEXT_COLUMNS, list(_next_lines(status.next, now)), style, most)]
    if status.views:
        room = None if style.height is None else max(ROOM_MIN, style.height - len(shown) - 1)
        worst = status.worst
        lines = [_view_line(view, worst.get((view.database, view.name)), now) for view in status.views]
        shown += ["", *_table(VIEW_COLUMNS, lines, style, room)]
    return shown


def _room(style: Style, share: int) -> int | None:
    """How many lines a table may have that gets one of so many shares of the terminal; None: any number."""
    return None if style.height is None else max(ROOM_MIN, style.height // share)


def duration(seconds: float) -> str:
    """`45s`, `5m 3s`, `2h 5m`, `3d 4h`. A negative time, from a clock that is slow, is `0s`."""
    whole = max(0, int(seconds))
    for size, unit, part, part_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit} {rest}{part_unit}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def bar(percent: float | None, style: Style) -> str:
    """`[#####.....] 50%`; an empty bar if the progress is unknown."""
    full, empty = ("█", "░") if style.unicode else ("#", ".")
    share = 0.0 if percent is None else min(100.0, max(0.0, percent))
    done = int(share * BAR_CHARACTERS / 100)
    shown = NOTHING if percent is None else f"{int(share)}%"
    return f"[{full * done}{empty * (BAR_CHARACTERS - done)}] {shown}"


def plain(text: str) -> str:
    """The text in one line, without characters with which a name or an error could control the terminal."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def characters(text: str) -> int:
    """The width of the text on a terminal, in columns."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


# --- lines --------------------------------------------------------------------------------------------

Column = tuple[str, bool]
"""A heading, and whether its values are numbers."""
VIEW_COLUMNS: tuple[Column, ...] = tuple((head.upper(), False) for head in words.VIEW_HEADS)
ATTENTION_COLUMNS: tuple[Column, ...] = tuple((head.upper(), False) for head in words.ATTENTION_HEADS[:3])
"""The others are notes."""
TASK_COLUMNS: tuple[Column, ...] = (
    ("TASK", False),
    ("STATUS", False),
    ("PROGRESS", False),
    ("PARTITIONS", False),
    ("TIME", False),
    ("BY", False),
)
GATEWAY_COLUMNS: tuple[Column, ...] = tuple(
    (head.upper(), head in ("Epoch", "Clients")) for head in words.GATEWAY_HEADS
)
NEXT_COLUMNS: tuple[Column, ...] = (("NEXT", False), ("IN", False), ("AT (UTC)", False))


def _summary(status: Status) -> str:
    views = words.views(len(status.views))
    if status.views:
        counts = words.by_freshness(Counter(view.freshness for view in status.views))
        views += ": " + ", ".join(f"{count:,} {word}" for word, count in counts.items())
    running = sum(task.status == RUNNING for task in status.tasks)
    waiting = len(status.tasks) - running
    return f"{views}. Tasks: {running} running, {waiting} waiting."


def _about(status: Status) -> Iterator[str]:
    if status.guard is not None:
        reason = f": {plain(status.guard_reason)}" if status.guard_reason else ""
        yield f"{words.GUARD}: {status.guard}{reason}"
    if status.servers is not None:
        yield f"{words.SERVERS}: {plain(status.servers)}"
    if status.limits_reached is not None:
        yield f"{words.LIMITS}: {plain(status.limits_reached)}"
    if wanted := status.memory:
        loaded = [each for each in wanted if each.state == LOADED]
        tables = [each["memory_bytes"] or 0 for each in status.tables_in_memory or () if each["memory"] == LOADED]
        yield words.views_in_memory(len(loaded), len(wanted), sum(each.bytes or 0 for each in loaded), tables)
    if status.audit_lines_lost:
        yield f"{words.AUDIT}: {words.lost_lines(status.audit_lines_lost)}"


def _problem_line(problem: Problem, now: datetime) -> StatusLine:
    notes = [problem.why, problem.advice, problem.error and f"error: {problem.error}"]
    since = NOTHING if problem.since is None else f"{_age(problem.since, now)} ago"
    return StatusLine((problem.what, problem.title, since), tuple(filter(None, notes)), urgent=True)


def _gateway_line(member: ListedGateway, now: datetime) -> StatusLine:
    return StatusLine(
        (
            member.address,
            member.role,
            _age(member.since, now),
            *(NOTHING if number is None else str(number) for number in (member.epoch, member.clients)),
            member.version or NOTHING,
        ),
        urgent=member.role not in (LEADER, DOOR),
    )


def _view_line(view: View, trouble: Problem | None, now: datetime) -> StatusLine:
    """`trouble`: the worst that is wrong with the view, which is told above."""
    notes = []
    if view.failures_in_a_row > 1 and trouble is None:
        notes.append(f"failing: {view.failures_in_a_row} refreshes in a row, for {_age(view.failing_since, now)}")
    if view.paused_because and trouble is None:
        resume = f"mend the cause, then RESUME MATERIALIZED VIEW JOB ON {view.title}"
        notes.append(f"paused, because {view.paused_because}: {resume}")
    if view.reason and (trouble is None or view.reason != trouble.why):
        notes.append(f"because {view.reason}" + (f", by {view.stale_by}" if view.stale_by else ""))
    if view.last_task_error and view.last_task_status in TROUBLE and trouble is None:
        notes.append(f"error: {view.last_task_error}")
    if view.schedule:
        notes.append(f"schedule: {view.schedule}")
    if (memory := view.memory) is not None and memory.state != LOADED:
        notes.append(f"memory: {words.not_in_memory(memory.state, memory.reason)}")
    due = view.next_refresh_time
    return StatusLine(
        (
            view.title,
            trouble.what if trouble is not None else view.freshness,
            _age(view.stale_since, now),
            _age(view.last_refresh_time, now),
            view.trigger or NOTHING,
            "paused" if view.paused else _until(due, now) if due else NOTHING,
            view.last_task_status or NOTHING,
        ),
        tuple(notes),
        urgent=trouble is not None or view.freshness != "FRESH" or view.last_task_status in TROUBLE,
    )


def _task_line(task: RefreshTask, now: datetime, style: Style) -> StatusLine:
    needed = task.partitions_needed
    notes = [task.spark_progress] if task.spark_progress else []
    if task.row_count is not None:
        notes.append(f"{task.row_count} rows")
    if task.reason:
        notes.append(f"because {task.reason}")
    by = " ".join(filter(None, [task.user, task.trigger and f"({task.trigger})"]))
    return StatusLine(
        (
            task.title,
            task.status,
            bar(task.percent, style),
            NOTHING if needed is None else f"{task.partitions_done} of {needed}",
            _age(task.since, now),
            by or NOTHING,
        ),
        tuple(notes),
    )


def _next_lines(views: Sequence[View], now: datetime) -> Iterator[StatusLine]:
    for view in views:
        if (due := view.next_refresh_time) is not None:
            yield StatusLine((view.title, _until(due, now), f"{due:%Y-%m-%d %H:%M:%S}"))


def _age(moment: datetime | None, now: datetime) -> str:
    return NOTHING if moment is None else duration((now - moment).total_seconds())


def _until(moment: datetime, now: datetime) -> str:
    seconds = (moment - now).total_seconds()
    return duration(seconds) if seconds > 0 else "due"


# --- tables --------------------------------------------------------------------------------------------


def _table(
    columns: Sequence[Column], lines: Sequence[StatusLine], style: Style, room: int | None = None, named: int = 0
) -> list[str]:
    """A table of at most `room` lines; on a narrow terminal the column of names, with the number `named`, shrinks."""
    rows = [tuple(map(plain, line.cells)) for line in lines]
    widths = [
        max(characters(heading), *(characters(row[place]) for row in rows))
        for place, (heading, _) in enumerate(columns)
    ]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - style.width
    if excess > 0:
        widths[named] = max(min(widths[named], NAME_CHARACTERS_MIN), widths[named] - excess)
    left = style.width - sum(widths) - len(GAP) * len(widths)
    beside = left >= NOTES_CHARACTERS_MIN
    noted = beside and any(line.notes for line in lines)
    head = _join([heading for heading, _ in columns] + ["NOTES"] * noted, widths, columns, style, colour=False)
    blocks = []
    for row, line in zip(rows, lines, strict=True):
        notes = [plain(note) for note in line.notes]
        cells = [*row]
        cells[named] = _middle(row[named], widths[named], style)
        if beside:
            blocks.append([_join([*cells, *(["; ".join(notes)] if notes else [])], widths, columns, style)])
        else:
            blocks.append([_join(cells, widths, columns, style), *(_cut(INDENT + note, style) for note in notes)])
    return [head, *_chosen(blocks, lines, style, None if room is None else room - 1)]


def _chosen(blocks: Sequence[list[str]], lines: Sequence[StatusLine], style: Style, room: int | None) -> list[str]:
    """As many blocks as there is room for, in their order; the last one may have lost notes."""
    if room is None or sum(map(len, blocks)) <= room:
        return [each for block in blocks for each in block]
    left = room - 1
    chosen: dict[int, list[str]] = {}
    for place in sorted(range(len(blocks)), key=lambda place: not lines[place].urgent):
        if left <= 0:
            break
        chosen[place] = blocks[place][:left]
        left -= len(chosen[place])
    shown = [each for place in sorted(chosen) for each in chosen[place]]
    urgent = sum(line.urgent for place, line in enumerate(lines) if place not in chosen)
    rest = f"and {len(blocks) - len(chosen)} more" + (f", {urgent} of them stale, failed or damaged" if urgent else "")
    return [*shown, _cut(rest, style)]


def _join(
    cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column], style: Style, *, colour: bool = True
) -> str:
    """Joins the cells of one line; cells beyond the last width are notes. Colour takes no width."""
    pieces = []
    left = style.width
    for place, cell in enumerate(cells):
        if left <= 0:
            break
        known = place < len(widths)
        shown = _fit(cell, left, style.ellipsis)
        padding = " " * ((min(widths[place], left) if known else 0) - characters(shown))
        code = COLOURS.get(cell) if known and colour and style.colour else None
        painted = f"\x1b[{code}m{shown}\x1b[0m" if code else shown
        pieces.append(padding + painted if known and columns[place][1] else painted + padding)
        left -= characters(shown) + len(padding) + len(GAP)
    return GAP.join(pieces).rstrip()


def _cut(text: str, style: Style) -> str:
    return _fit(text, style.width, style.ellipsis)


def _fit(text: str, width: int, ellipsis: str) -> str:
    """The start of the text, with an ellipsis if it is cut."""
    if characters(text) <= width:
        return text
    return _prefix(text, width - len(ellipsis)) + ellipsis[:width]


def _middle(text: str, width: int, style: Style) -> str:
    """Like `_fit`, but keeps the end of the text too, because names often differ there."""
    if characters(text) <= width:
        return text
    keep = width - len(style.ellipsis)
    end = _prefix(reversed(text), keep // 2)[::-1]
    return _prefix(text, keep - characters(end)) + style.ellipsis + end


def _prefix(order: Iterable[str], width: int) -> str:
    """The first characters that fit in `width` columns."""
    taken = []
    for character in order:
        width -= _width(character)
        if width < 0:
            break
        taken.append(character)
    return "".join(taken)
