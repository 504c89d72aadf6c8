"""Tests who follows, who takes over and who retires: rule by rule, and in random histories of several gateways."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.gateways.election import (
    HEIR_LOOKS,
    Act,
    Decision,
    Election,
    Event,
    Follow,
    Leaving,
    Linked,
    OwnTerm,
    Phase,
    Registered,
    Seen,
    Silent,
    Vacant,
)
from gateway.mv.catalog.presence import Presence

ALIVE = Seen("a", "host:1", Presence.ALIVE)
UNKNOWN = Seen("a", "host:1", Presence.UNKNOWN)
GONE = Seen("a", "host:1", Presence.GONE)
OTHER = Seen("b", "host:2", Presence.UNKNOWN)


def after(*events: Event) -> tuple[Election, list[Decision]]:
    election, decisions = Election(), list[Decision]()
    for event in events:
        election, decision = election.after(event)
        decisions += [decision] if decision is not None else []
    return election, decisions


MISSING, BACK = Registered("a", present=False), Registered("a", present=True)
FOLLOW_A, FOLLOW_B = Follow("a", "host:1"), Follow("b", "host:2")
HEIR, NO_HEIR = ((UNKNOWN, Linked("a"), Leaving("a", heir=heir)) for heir in (True, False))


@pytest.mark.parametrize(
    ("events", "phase", "decisions"),
    [
        ([UNKNOWN, ALIVE, UNKNOWN], Phase.DOOR, [FOLLOW_A]),
        ([GONE], Phase.CANDIDATE, [Act.CAMPAIGN]),
        ([UNKNOWN, GONE], Phase.CANDIDATE, [FOLLOW_A, Act.CAMPAIGN]),
        ([UNKNOWN, Linked("a"), OTHER], Phase.DOOR, [FOLLOW_A, FOLLOW_B]),
        # It hands over: its heir leads first, and another one if that one does not.
        ([*HEIR, Vacant("a"), GONE], Phase.CANDIDATE, [FOLLOW_A, Act.PREPARE, Act.LOOK, Act.CAMPAIGN]),
        ([*NO_HEIR, Vacant("a"), *[GONE] * HEIR_LOOKS], Phase.SUSPECTING, [FOLLOW_A, Act.LOOK]),
        ([*NO_HEIR, Vacant("a"), *[GONE] * HEIR_LOOKS, GONE], Phase.CANDIDATE, [FOLLOW_A, Act.LOOK, Act.CAMPAIGN]),
        ([*NO_HEIR, Vacant("a"), GONE, OTHER], Phase.DOOR, [FOLLOW_A, Act.LOOK, FOLLOW_B]),
        ([GONE, OwnTerm.WON, OwnTerm.YIELDED, OTHER], Phase.RETIRING, [Act.CAMPAIGN, FOLLOW_B]),
        # Closed, and its port refuses.
        ([UNKNOWN, Linked("a"), Vacant("a"), ALIVE], Phase.CANDIDATE, [FOLLOW_A, Act.LOOK, Act.CAMPAIGN]),
        ([UNKNOWN, Linked("a"), Vacant("a"), OTHER], Phase.DOOR, [FOLLOW_A, Act.LOOK, FOLLOW_B]),
        ([UNKNOWN, Linked("a"), Vacant("a"), Linked("a"), ALIVE], Phase.DOOR, [FOLLOW_A, Act.LOOK]),
        # One that was never reached may be unreachable from here alone.
        ([UNKNOWN, Vacant("a"), ALIVE], Phase.SUSPECTING, [FOLLOW_A]),
        ([UNKNOWN, Linked("a"), Silent("a"), UNKNOWN], Phase.SUSPECTING, [FOLLOW_A]),
        ([UNKNOWN, Linked("a"), Silent("a"), Linked("a")], Phase.DOOR, [FOLLOW_A]),
        # Silent, and it has left ZooKeeper too.
        ([UNKNOWN, Linked("a"), Silent("a"), MISSING, ALIVE], Phase.CANDIDATE, [FOLLOW_A, Act.LOOK, Act.CAMPAIGN]),
        ([UNKNOWN, Linked("a"), MISSING, Silent("a"), ALIVE], Phase.CANDIDATE, [FOLLOW_A, Act.LOOK, Act.CAMPAIGN]),
        ([UNKNOWN, Linked("a"), Silent("a"), MISSING, OTHER], Phase.DOOR, [FOLLOW_A, Act.LOOK, FOLLOW_B]),
        # One that answers has only lost ZooKeeper, and one that is silent may be slow.
        ([UNKNOWN, Linked("a"), MISSING, ALIVE], Phase.DOOR, [FOLLOW_A, Act.LOOK]),
        ([UNKNOWN, Linked("a"), Silent("a"), MISSING, Linked("a"), ALIVE], Phase.DOOR, [FOLLOW_A, Act.LOOK]),
        ([UNKNOWN, Linked("a"), MISSING, BACK, Silent("a"), ALIVE], Phase.SUSPECTING, [FOLLOW_A, Act.LOOK]),
        ([UNKNOWN, Silent("a"), MISSING, ALIVE], Phase.SUSPECTING, [FOLLOW_A, Act.LOOK]),
        # What is said of an earlier leader says nothing of this one.
        ([UNKNOWN, Linked("a"), OTHER, Vacant("a"), OTHER], Phase.DOOR, [FOLLOW_A, FOLLOW_B]),
        ([GONE, OwnTerm.WON, ALIVE, Vacant("")], Phase.LEADING, [Act.CAMPAIGN]),
        ([GONE, OwnTerm.FAILED, OTHER], Phase.DOOR, [Act.CAMPAIGN, FOLLOW_B]),
        ([GONE, OwnTerm.WON, OwnTerm.SUPERSEDED], Phase.RETIRING, [Act.CAMPAIGN, Act.RETIRE]),
        ([GONE, OwnTerm.WON, OwnTerm.SUPERSEDED, OTHER], Phase.RETIRING, [Act.CAMPAIGN, Act.RETIRE, FOLLOW_B]),
        # Two terms of one process would write side by side.
        ([GONE, OwnTerm.WON, OwnTerm.SUPERSEDED, GONE], Phase.RETIRING, [Act.CAMPAIGN, Act.RETIRE]),
        (
            [GONE, OwnTerm.WON, OwnTerm.SUPERSEDED, OTHER, OwnTerm.ENDED, OTHER],
            Phase.DOOR,
            [Act.CAMPAIGN, Act.RETIRE, FOLLOW_B],
        ),
        (
            [GONE, OwnTerm.WON, OwnTerm.SUPERSEDED, OwnTerm.ENDED, GONE],
            Phase.CANDIDATE,
            [Act.CAMPAIGN, Act.RETIRE, Act.CAMPAIGN],
        ),
        ([OwnTerm.ENDED, OwnTerm.WON, OwnTerm.SUPERSEDED], Phase.DOOR, []),
    ],
)
def test_each_rule(events: list[Event], phase: Phase, decisions: list[Decision]) -> None:
    election, found = after(*events)
    assert (election.phase, found) == (phase, decisions)


marks = st.sampled_from("ab")
events = st.one_of(
    st.builds(Seen, marks, st.just("host:1"), st.sampled_from(Presence)),
    st.builds(Linked, marks),
    st.builds(Silent, marks),
    st.builds(Vacant, marks),
    st.builds(Registered, marks, st.booleans()),
    st.sampled_from(OwnTerm),
)


@given(st.lists(events, max_size=40))
def test_one_term_at_a_time_and_none_against_a_leader_that_answers(said: list[Event]) -> None:
    election, running = Election(), False
    last: dict[str, Event] = {}
    for event in said:
        before, (election, decision) = election, election.after(event)
        if isinstance(event, Linked | Silent | Vacant):
            last[event.mark] = event
        if event in (OwnTerm.FAILED, OwnTerm.ENDED) and before.phase is not election.phase:
            running = False
        if decision is Act.CAMPAIGN:
            assert not running
            running = True
            assert isinstance(event, Seen)
            assert event.presence is Presence.GONE or isinstance(last[event.mark], Vacant | Silent)
            assert event.presence is Presence.GONE or before.vacant or before.missing
        assert running == (election.phase in (Phase.CANDIDATE, Phase.LEADING, Phase.RETIRING))


@dataclass
class Town:
    """Gateways around one mark. Each step, one of them hears something that may be true at that time."""

    mark: str = ""
    dead: set[str] = field(default_factory=set)
    nodes: dict[str, Election] = field(default_factory=lambda: dict.fromkeys("abc", Election()))

    def leads(self, name: str) -> bool:
        return self.mark == name and name not in self.dead and self.nodes[name].phase is Phase.LEADING

    def hear(self, name: str, event: Event) -> None:
        self.nodes[name], decision = self.nodes[name].after(event)
        if decision is Act.LOOK:
            self.look(name)
        elif decision is Act.CAMPAIGN:
            self.mark = name  # The last mark wins.

    def look(self, name: str) -> None:
        phase = self.nodes[name].phase
        if phase in (Phase.CANDIDATE, Phase.LEADING):
            won = OwnTerm.WON if self.mark == name else OwnTerm.FAILED
            event = won if phase is Phase.CANDIDATE else OwnTerm.SUPERSEDED
            if phase is Phase.CANDIDATE or self.mark != name:
                self.hear(name, event)
            return
        if phase is Phase.RETIRING:
            self.hear(name, OwnTerm.ENDED)
        gone = self.mark in ("", name) or self.mark in self.dead
        self.hear(name, Seen(self.mark, "host:1", Presence.GONE if gone else Presence.UNKNOWN))

    def ping(self, name: str) -> None:
        followed = self.nodes[name].mark
        if followed:
            self.hear(name, Linked(followed) if self.leads(followed) else Vacant(followed))


HAPPENINGS = ["look", "ping", "cut", "lost", "die", "back"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(HAPPENINGS)), max_size=60))
def test_after_any_history_one_leads_and_the_others_follow_it(history: list[tuple[str, str]]) -> None:
    town = Town()
    for name, what in history:
        if what == "die" and len(town.dead) < 2:
            town.dead.add(name)
            town.nodes[name] = Election()
        elif what == "back":
            town.dead.discard(name)
        elif name not in town.dead:
            if what == "look":
                town.look(name)
            elif what == "ping":
                town.ping(name)
            elif followed := town.nodes[name].mark:
                town.hear(name, Silent(followed) if what == "cut" else Registered(followed, present=False))
    for _ in range(6):
        for name in sorted(town.nodes.keys() - town.dead):
            town.look(name)
            town.ping(name)
    living = town.nodes.keys() - town.dead
    assert [name for name in living if town.leads(name)] == [town.mark]
    assert all(town.nodes[name].mark == town.mark for name in living if name != town.mark)
