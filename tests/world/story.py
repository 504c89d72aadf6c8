"""Histories: made from a seed, played, and where one goes wrong, shortened to the shortest that still does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random

from world import nursery, shapes
from world.actions import Action
from world.assembly import Tuning
from world.choices import Choices
from world.edges import Edges
from world.oracle import OUTSIDE
from world.shapes import Shape
from world.spark import Fault
from world.world import SPOILS, Outcome, happen

WAITS = (1, 3, 10, 31, 65)
PAUSES = (3, 10, 20, 40)


@dataclass(frozen=True, slots=True)
class Theme:
    """What a history is about: what never happens together in one of everything often does in one of a few things."""

    verbs: Mapping[str, int]
    """What clients do, by weight."""
    fates: Mapping[str, int] = field(default_factory=dict)
    """What befalls them, by weight."""
    befalls: tuple[int, ...] = (0,)
    """How often."""
    outside: tuple[int, ...] = (0,)
    """How many writes come past the gateway."""
    plans: tuple[str, ...] = ()
    """In which worlds; none: in all."""
    kinds: tuple[str, ...] = ("publish", "props", "insert", "drop", "look", "ask", "fence", "read", "write")
    """Of the statements that fail."""
    spoils: tuple[int, ...] = ()
    """How often stored rows are changed past the gateways."""
    by_rows: bool = False
    """Only in worlds whose refreshes are by rows if possible."""
    first: str = ""
    """What ada does before all others."""
    clients: tuple[str, ...] = ("ada", "ada", "bob", "eve")
    """Who does the others, by weight."""
    rests: tuple[int, ...] = WAITS
    """How many seconds a client does nothing."""
    trusting: bool = False
    """Only in worlds in which a look is trusted for a while."""
    several: bool = False
    """One of several gateways leads."""

    def fits(self, shape: Shape) -> bool:
        within = not self.plans or shape.plan.name in self.plans
        trusts = shape.tuning.probe_interval > 0 or not self.trusting
        return within and trusts and not (self.by_rows and shape.tuning.incremental_from)


CLIENTS = {"read": 9, "insert": 5, "fire": 1, "overwrite": 2, "truncate": 1, "ask": 2}
THEMES = {
    "crowd": Theme({"read": 8, "insert": 5, "overwrite": 3, "truncate": 3, "ask": 1}),
    "rows": Theme(
        {"read": 7, "insert": 6, "overwrite": 1, "ask": 1}, {"wait": 1}, (0, 1), outside=(2, 3, 4), by_rows=True
    ),
    "empty tables": Theme(
        {"read": 5, "insert": 3, "truncate": 5},
        {"kill gateway": 4, "wait": 1},
        (0, 0, 1),
        plans=("one table", "partitions", "values of partitions"),
    ),
    "an emptied table": Theme(
        {"read": 5, "insert": 3, "truncate": 5},
        {"wait": 1},
        (0, 1),
        plans=("one table",),
        first="truncate",
        clients=("ada", "ada", "bob"),
    ),
    "parts": Theme({"read": 5, "insert": 5, "ask": 4}, plans=("partitions", "partitions beside a table")),
    "looks": Theme({"read": 8, "insert": 1}, {"wait": 1}, (1, 2), outside=(1, 2)),
    "spoils": Theme(
        {"read": 8, "insert": 4, "overwrite": 1, "ask": 2}, {"wait": 4, "kill gateway": 1}, (0, 1, 2), spoils=(1, 1, 2)
    ),
    "spoilt rows": Theme({"read": 8, "insert": 6}, {"wait": 1}, (1,), spoils=(1, 2), by_rows=True),
    "spoilt rows below": Theme(
        {"read": 7, "insert": 4, "ask": 2},
        {"wait": 1},
        (0, 1),
        spoils=(1, 2),
        plans=("a view on a view",),
        by_rows=True,
    ),
    "unpolled": Theme({"read": 6, "fire": 6, "insert": 1, "ask": 1}, {"wait": 1}, (0, 1)),
    "elsewhere": Theme(CLIENTS, {"wait": 1}, (0, 1, 2), outside=(1, 2, 3)),
    "cancels": Theme({"read": 6, "insert": 5, "truncate": 1, "ask": 1}, {"cancel": 6, "wait": 1}, (1, 2, 3)),
    "synchronous": Theme(
        {"read": 4, "rest": 3, "leave": 1},
        plans=("one table",),
        first="leave",
        clients=("bob", "bob", "ada"),
        rests=(31, 12),
        trusting=True,
    ),
    "switches": Theme({"read": 6, "insert": 4, "ask": 1}, {"fault": 5, "wait": 1}, (1, 2), kinds=("publish",)),
    "connections": Theme(CLIENTS, {"fault": 5, "wait": 1}, (1, 2), kinds=("props", "insert", "write", "ask")),
    "crashes": Theme(CLIENTS, {"kill gateway": 3, "kill Spark": 2, "wait": 1}, (1, 2, 3)),
    "gateways": Theme(CLIENTS, {"start gateway": 3, "kill gateway": 1, "wait": 1, "fault": 1}, (1, 2), outside=(0, 1)),
    "leaders": Theme(
        {"read": 9, "insert": 6, "ask": 1},
        {"depose gateway": 9, "pause gateway": 1, "kill gateway": 1},
        (1, 1, 1, 2),
        plans=("one table", "values of partitions", "a view on a view"),
        clients=("ada", "ada", "bob"),
        trusting=True,
        several=True,
    ),
    "takeovers": Theme(
        CLIENTS,
        {
            "depose gateway": 4,
            "kill gateway": 4,
            "hand over": 2,
            "pause gateway": 1,
            "fault": 3,
            "kill Spark": 1,
            "wait": 1,
        },
        (1, 2, 3),
        several=True,
    ),
    "hand-overs": Theme(
        {"read": 9, "insert": 6, "ask": 1},
        {"hand over": 9, "kill gateway": 1, "depose gateway": 1, "fault": 1},
        (1, 1, 1, 2),
        plans=("one table", "values of partitions", "a view on a view"),
        clients=("ada", "ada", "bob"),
        trusting=True,
        several=True,
    ),
    "names": Theme(
        {"read": 6, "insert": 5, "ask": 6},
        {"fault": 4, "cancel": 1, "kill gateway": 1},
        (0, 1, 2),
        plans=("two views",),
        kinds=("publish", "publish", "props", "create", "drop", "ask"),
    ),
    "anything": Theme(
        CLIENTS,
        {"fault": 10, "wait": 4, "cancel": 3, "kill gateway": 3, "kill Spark": 2, "start gateway": 1},
        (0, 1, 2, 3),
        outside=(0, 0, 1, 2),
        spoils=(0, 0, 1),
    ),
}


@dataclass(frozen=True, slots=True)
class History:
    """What happens in which world. `choices` are given, or follow from the seed where there are none."""

    shape: Shape
    actions: tuple[Action, ...]
    seed: int
    choices: tuple[int, ...] | None = None
    several: bool = False

    def play(self, edges: Edges, *, tell: bool = False) -> Outcome:
        choices = Choices(self.seed) if self.choices is None else Choices(given=self.choices)
        return happen(self.shape, edges, list(self.actions), choices, tell=tell, several=self.several)


def worlds(edges: Edges) -> list[Shape]:
    """All worlds in which a history may begin."""
    found = []
    for plan in shapes.PLANS:
        for least in (0, 1 << 26):
            metastore = nursery.made(plan, edges, least)
            for probe, retention, caches in product((0.0, 30.0), (0.0, 60.0), (False, True)):
                tuning = Tuning(probe, retention, least)
                found.append(nursery.shape(plan, metastore, tuning, caches=caches))
    return found


def history(seed: int, among: Sequence[Shape], theme: str = "") -> History:
    """The history of a seed; of a theme, or of any."""
    chance = Random(seed)
    about = THEMES[theme or chance.choice(list(THEMES))]
    shape = chance.choice([each for each in among if about.fits(each)])
    tables, views = list(shape.metastore.tables), shapes.views(shape.plan)
    actions = [_of_client(chance, about, shape, tables, views) for _ in range(chance.randrange(3, 8))]
    if about.first:
        actions.insert(0, Action("ada", about.first, chance.choice(tables), chance.choice("abc")))
    for _ in range(chance.choice(about.outside)):
        verb = chance.choice(("insert", "overwrite", "rewrite", "truncate"))
        write = Action(OUTSIDE, verb, chance.choice(tables), chance.choice("abc"))
        actions.insert(chance.randrange(len(actions)), write)
    for _ in range(chance.choice(about.spoils or (0,))):
        spoil = Action(OUTSIDE, chance.choice(SPOILS), chance.choice(views))
        actions.insert(chance.randrange(len(actions)), spoil)
    for _ in range(chance.choice(about.befalls)):
        actions.insert(chance.randrange(len(actions)), _fate(chance, about))
    actions.append(Action("ada", "read", chance.choice(views)))
    if any(action.actor == OUTSIDE and action.verb not in SPOILS for action in actions):
        # What comes past the gateway and goes again between two looks is never seen: docs/internals/simulation.md.
        actions = [action for action in actions if action.verb != "truncate" and not action.removes]
    return History(shape, tuple(actions), seed, several=about.several)


def _of_client(chance: Random, theme: Theme, shape: Shape, tables: list[str], views: list[str]) -> Action:
    who = chance.choice(theme.clients)
    verb = _weighed(chance, theme.verbs)
    if verb == "read":
        return Action(who, verb, chance.choice([*views, *(["s.x"] if shape.plan.moves else [])]))
    if verb == "ask":
        return Action(who, verb, text=_asked(chance, shape, views))
    if verb == "rest":
        return Action(who, verb, number=chance.choice(theme.rests))
    removes = chance.choice((0, 0, 1)) if verb == "fire" else 0
    return Action(who, verb, chance.choice(tables), chance.choice("abc"), removes)


def _weighed(chance: Random, weights: Mapping[str, int]) -> str:
    return chance.choices(list(weights), list(weights.values()))[0]


def _asked(chance: Random, shape: Shape, views: list[str]) -> str:
    """A statement of the gateway's own, or one that it refuses."""
    view = chance.choice(views)
    texts = [f"REFRESH MATERIALIZED VIEW {view}"] * 4 + [f"INSERT INTO {view} VALUES (1)"]
    texts += ["EXECUTE IMMEDIATE said", "EXECUTE IMMEDIATE 'REFRESH TABLE IDENTIFIER(:n)' USING 's.t' AS n"]
    if "PARTITION BY" in shape.plan.creates[0]:
        texts += [f"REFRESH MATERIALIZED VIEW {view} PARTITIONS (p_{chance.choice('ab')})"] * 4
    if shape.plan.moves:
        texts += [
            f"ALTER MATERIALIZED VIEW {view} RENAME TO x",
            "ALTER MATERIALIZED VIEW s.v REPLACE WITH MATERIALIZED VIEW w",
            "ALTER MATERIALIZED VIEW s.v REPLACE WITH MATERIALIZED VIEW w PROPERTIES ('swap' = 'false')",
            f"CREATE OR REPLACE MATERIALIZED VIEW {view} AS SELECT k FROM {chance.choice(('s.t', 's.u'))}",
            f"DROP MATERIALIZED VIEW {view}",
        ] * 2
    return chance.choice(texts)


def _fate(chance: Random, theme: Theme) -> Action:
    verb = _weighed(chance, theme.fates)
    match verb:
        case "fault":
            fault = chance.choice(list(Fault)).name
            return Action("fate", verb, chance.choice(theme.kinds), fault, chance.choice((0, 0, 1, 2)))
        case "pause gateway" | "depose gateway":
            return Action("fate", verb, number=chance.choice(PAUSES))
        case "wait":
            return Action("fate", verb, number=chance.choice(WAITS))
        case "cancel":
            return Action("fate", verb, chance.choice(("ada", "bob")))
    return Action("fate", verb)


# --- shortening -----------------------------------------------------------------------------------------------


def shortest(failing: History, edges: Edges, tries: int = 2_000) -> History:
    """A history that goes wrong alike, with as few actions and as plain choices as were found."""
    return _Shortening(failing, edges, tries).best


class _Shortening:
    def __init__(self, failing: History, edges: Edges, tries: int) -> None:
        self._edges = edges
        self._left = tries
        outcome = failing.play(edges)
        self._kind = _kind(outcome)
        self.best = replace(failing, choices=tuple(outcome.made))
        before = None
        while self._left > 0 and before != self.best:
            before = self.best
            self._drop_actions()
            self._cut_choices()
            self._plain_choices()

    def _fails(self, candidate: History) -> bool:
        self._left -= 1
        if self._left < 0:
            return False
        outcome = candidate.play(self._edges)
        if _kind(outcome) != self._kind:
            return False
        made = outcome.made
        while made and made[-1] == 0:
            made.pop()
        self.best = replace(candidate, choices=tuple(made))
        return True

    def _drop_actions(self) -> None:
        place = 0
        while place < len(self.best.actions):
            actions = self.best.actions
            if not self._fails(replace(self.best, actions=(*actions[:place], *actions[place + 1 :]))):
                place += 1

    def _cut_choices(self) -> None:
        """Pieces are left out, longer ones first: what follows them comes earlier."""
        size = max(1, len(self.best.choices or ()) // 2)
        while size:
            place = 0
            while place < len(choices := self.best.choices or ()):
                if not self._fails(replace(self.best, choices=(*choices[:place], *choices[place + size :]))):
                    place += size
            size //= 2

    def _plain_choices(self) -> None:
        """Pieces become zeros."""
        size = max(1, len(self.best.choices or ()) // 2)
        while size:
            place = 0
            while place < len(choices := self.best.choices or ()):
                piece = choices[place : place + size]
                plain = (*choices[:place], *(0 for _ in piece), *choices[place + size :])
                if any(piece):
                    self._fails(replace(self.best, choices=plain))
                place += size
            size //= 2


def _kind(outcome: Outcome) -> str | None:
    """The same fault has other numbers elsewhere."""
    return outcome.wrong and " ".join(word for word in outcome.wrong.split() if word.isalpha())[:40]


def told(history: History, edges: Edges) -> str:
    """The history, as a person reads it."""
    outcome = history.play(edges, tell=True)
    shape, tuning = history.shape, history.shape.tuning
    creates = "\n".join(f"  {create}" for create in shape.plan.creates)
    return "\n".join(
        [
            f"{shape.plan.name}; looks are trusted for {tuning.probe_interval:g} s, replaced versions kept for "
            f"{tuning.retention:g} s, Spark {'keeps' if shape.caches else 'keeps no'} listings",
            creates,
            *outcome.story,
            outcome.wrong or "nothing went wrong",
        ]
    )
