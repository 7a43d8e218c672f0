"""What the shop does for a request: find the goods, price them, show them, write it down."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import string

from .pricing import Pricing

WORDS = ("lamp", "chair", "table", "shelf", "clock", "mirror", "carpet", "candle")
PAGE = string.Template("<li>$name costs $price</li>")
_log = logging.getLogger("shop")


class Checkout:
    """The handler of every request."""

    def __init__(self, release: int) -> None:
        self._release = release
        self._pricing = Pricing(release)

    async def handle(self, number: int) -> str:
        """Answer one request."""
        self._authenticate(f"customer-{number % 50}")
        cart = [f"{WORDS[(number + at) % len(WORDS)]}-{at}" for at in range(30)]
        await asyncio.sleep(0.01)
        prices = {name: self._pricing.price(name) for name in cart}
        page = self._show(prices)
        self._write_down(number, prices)
        return page

    def _authenticate(self, customer: str) -> bytes:
        return hashlib.pbkdf2_hmac("sha256", customer.encode(), b"salt", 400)

    def _show(self, prices: dict[str, float]) -> str:
        rows = [PAGE.substitute(name=name, price=f"{price:.2f}") for name, price in prices.items()]
        return re.sub(r"\s+", " ", "".join(rows))

    def _write_down(self, number: int, prices: dict[str, float]) -> None:
        if self._release == 1:
            self._audit(number, prices)
        _log.debug("%s", json.dumps({"request": number, "prices": prices}, indent=1))

    def _audit(self, number: int, prices: dict[str, float]) -> str:
        return hashlib.sha256("".join(f"{number}{name}" for name in prices).encode()).hexdigest()
