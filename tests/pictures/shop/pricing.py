"""Prices by rules; the second release reads its rules anew for each price, and looks for promotions."""

from __future__ import annotations

import re

RULES = tuple(rf"^(?P<kind>\w+)-{at}(?P<rest>\d*)$" for at in range(12))
_COMPILED = tuple(re.compile(rule) for rule in RULES)
PROMOTIONS = {f"lamp-{at}": at / 100 for at in range(60)}


class Pricing:
    """What a thing costs."""

    def __init__(self, release: int) -> None:
        self._release = release

    def price(self, name: str) -> float:
        price = self._apply(name)
        return price * (1 - self._promotion(name)) if self._release == 2 else price

    def _apply(self, name: str) -> float:
        price = 10.0
        for rule in self._rules():
            found = rule.match(name)
            price += len(found["kind"]) if found else 0.1
        return price

    def _rules(self) -> tuple[re.Pattern[str], ...]:
        return _COMPILED if self._release == 1 else tuple(re.compile(rule, re.ASCII) for rule in RULES)

    def _promotion(self, name: str) -> float:
        return max((off for promoted, off in PROMOTIONS.items() if promoted.startswith(name)), default=0.0)
