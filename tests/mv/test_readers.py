"""Which versions may go: against a model in which each read sees what was current at some moment of its planning."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.mv.readers import Read, Readers

VIEW = "v"


class History(RuleBasedStateMachine):
    """One view: versions come, reads begin, are planned and end. Spark may plan a read at any moment in between."""

    def __init__(self) -> None:
        super().__init__()
        self.readers = Readers()
        self.number = 1
        self.since = self.readers.now()
        self.retired: dict[int, tuple[int, int]] = {}
        self.reads: dict[Read, set[int]] = {}
        """Of each open read the versions that it may have seen."""

    @rule()
    def publish(self) -> None:
        now = self.readers.now()
        self.retired[self.number] = self.since, now
        self.number, self.since = self.number + 1, now
        for read, seen in self.reads.items():
            if read.planned is None and read.views:
                seen.add(self.number)

    @rule()
    def begin(self) -> None:
        self.reads[self.readers.begin([VIEW])] = {self.number}

    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([*self.retired, self.number]))
        self.reads[self.readers.begin(versions=[(VIEW, number)])] = {number}

    @rule(data=st.data())
    def plan(self, data: st.DataObject) -> None:
        if self.reads:
            self.readers.planned(data.draw(st.sampled_from(list(self.reads))))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.reads:
            read = data.draw(st.sampled_from(list(self.reads)))
            self.readers.release(read)
            del self.reads[read]

    @invariant()
    def counted(self) -> None:
        """Neither is a version let go that somebody may read, nor is one kept that nobody can."""
        for number, (published, retired) in self.retired.items():
            expected = sum(number in seen for seen in self.reads.values())
            assert self.readers.count(VIEW, number, published, retired) == expected
        expected = sum(self.number in seen for seen in self.reads.values())
        assert self.readers.count(VIEW, self.number, self.since, None) == expected
        assert self.readers.count("other", 1, 0, None) == 0


TestHistory = History.TestCase
