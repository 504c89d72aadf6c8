"""The rules of the time zones of clients' sessions, as Spark's Java has them.

Tests: `test_zones`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from gateway.mv.ports import ServiceSessions
from gateway.mv.refresh.habits import Habits
from sql.memory.zone_questions import HALF_DAY, MINUTE, NAME, ZoneSurvey, check, check_answer, search, survey
from sql.memory.zone_rules import UTC, UTC_RULES, IrregularZone, ZoneRules

log = logging.getLogger(__name__)

ZONES_MAX = 64
"""That are kept: 20 KB each."""


class Zones:
    """Asks Spark for the rules of a zone once: until it is started again, perhaps with another Java."""

    def __init__(self, service: ServiceSessions, habits: Habits) -> None:
        self._service = service
        self._habits = habits
        self._known: OrderedDict[tuple[str, str], ZoneRules] = OrderedDict()
        """By Spark's application and the zone's name; those used last are the last ones."""
        self._asking = asyncio.Lock()

    async def rules(self, name: str) -> ZoneRules:
        """The rules of a zone; those of one whose clocks are not understood are known for no time. Raises what Spark
        raises."""
        if name in UTC:
            return UTC_RULES
        async with self._asking:
            key = self._habits.application, name
            if key not in self._known:
                self._known[key] = await self._asked(name)
                if len(self._known) > ZONES_MAX:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return self._known[key]

    async def _asked(self, name: str) -> ZoneRules:
        if NAME.fullmatch(name) is None:
            return ZoneRules.unknown(name)
        async with self._service.session() as session:
            found = ZoneSurvey(name, (await session.run(survey(name))).rows)
            changes = (await session.run(search(name, found.changing, HALF_DAY, MINUTE))).rows if found.changing else []
            if changes:
                minutes = sorted(int(str(at)) for at, *_ in changes)
                changes = (await session.run(search(name, minutes, MINUTE, 1))).rows
            try:
                rules = found.rules(changes)
                check_answer(rules, (await session.run(check(rules))).rows)
            except IrregularZone:
                log.warning("times in the time zone %s are left to Spark: its clocks are not understood", name)
                return ZoneRules.unknown(name)
        log.info("learned when the clocks of the time zone %s are changed: %d times", name, len(changes))
        return rules
