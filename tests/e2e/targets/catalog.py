"""A product page on aiohttp: a request goes through two dozen functions of about the same cost.

    python catalog.py PORT_FILE SECONDS

What is planted is planted in the text (tests/e2e/sequential_versions.py): a version is a copy of this file
with an edit, as versions are. It ends by itself after so many seconds.
"""

import asyncio
import base64
import hashlib
import heapq
import html
import json
import math
import re
import struct
import sys
import zlib
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import quote

from aiohttp import web

NAMES = [f"{hue} {thing} <{size}>" for hue in ("red", "blue") for thing in ("lamp", "desk") for size in "SML"]
TEXT = " ".join(NAMES * 4)


class Offer(NamedTuple):
    id: int
    name: str
    cents: int
    seller: int


OFFERS = [Offer(at, NAMES[at % 12], at * 7919 % 9973, at % 9) for at in range(300)]
STORED = json.dumps([offer._asdict() for offer in OFFERS])
WORD = re.compile(r"(?P<word>[a-z]+) ")
ROW = Template("<tr><td>$id</td><td>$name</td><td>$cents</td></tr>")


def load_offers() -> list[dict[str, object]]:
    return json.loads(STORED)


def filter_offers() -> list[Offer]:
    return [offer for _ in range(20) for offer in OFFERS if offer.cents > 5000 and offer.seller != 3]


def rank_offers() -> list[Offer]:
    return sorted(OFFERS * 4, key=lambda offer: (offer.cents, offer.name))


def price_offers() -> Decimal:
    total = Decimal(0)
    for offer in OFFERS * 3:
        total += Decimal(offer.cents) * Decimal("1.19") / 100
    return total


def apply_discounts() -> list[int]:
    return [max(offer.cents - offer.cents // 20 * (offer.seller % 2), 99) for offer in OFFERS * 4]


def format_prices() -> list[str]:
    return [f"{offer.cents // 100:,}.{offer.cents % 100:02d} EUR" for offer in OFFERS * 2]


def find_words() -> list[str]:
    return [word for _ in range(18) for word in WORD.findall(TEXT)]


def mark_words() -> str:
    return "".join(WORD.sub(r"<b>\g<word></b> ", TEXT) for _ in range(3))


def index_words() -> dict[str, set[int]]:
    index = defaultdict(set)
    for offer in OFFERS * 2:
        for word in offer.name.split():
            index[word].add(offer.id)
    return index


def score_words() -> float:
    return sum(math.log1p(len(word)) / (1 + at) for at, word in enumerate(TEXT.split() * 12))


def merge_lists() -> list[int]:
    return list(heapq.merge(range(0, 1500, 3), range(1, 1500, 3), range(2, 1500, 3)))


def group_offers() -> list[tuple[int, int]]:
    groups = groupby(sorted(OFFERS * 6, key=lambda offer: offer.seller), lambda offer: offer.seller)
    return [(seller, len(list(offers))) for seller, offers in groups]


def estimate_delivery() -> list[datetime]:
    start = datetime(2026, 11, 29, tzinfo=UTC)
    return [start + timedelta(days=offer.seller, minutes=offer.id) for offer in OFFERS]


def escape_names() -> list[str]:
    return [html.escape(offer.name) for offer in OFFERS * 2]


def build_links() -> list[str]:
    return [f"/offers/{quote(name)}?seller={seller}" for name in NAMES for seller in range(9)]


def encode_ids() -> list[bytes]:
    return [base64.urlsafe_b64encode(struct.pack(">IH", offer.id, offer.seller)) for offer in OFFERS * 3]


def sign_page() -> str:
    digest = TEXT
    for _ in range(450):
        digest = hashlib.sha256(digest.encode()).hexdigest()
    return digest


def compress_page() -> bytes:
    return zlib.compress(STORED.encode() * 3, 4)


def render_rows() -> str:
    return "".join(ROW.substitute(offer._asdict()) for offer in OFFERS[:110])


def count_letters() -> Counter:
    return Counter(TEXT * 12)


def clean_names() -> list[str]:
    return [" ".join(name.strip().title().replace("<", "").split()) for name in NAMES * 50]


def pick_colors() -> dict[int, str]:
    return {offer.id: offer.name.partition(" ")[0].upper() for offer in OFFERS * 5}


def sum_by_seller() -> dict[int, int]:
    sums = {}
    for offer in OFFERS * 8:
        sums[offer.seller] = sums.get(offer.seller, 0) + offer.cents
    return sums


def number_pages() -> list[tuple[int, int]]:
    return [divmod(at * 17, 24) for at in range(2500)]


STEPS = (
    load_offers, filter_offers, rank_offers, price_offers, apply_discounts, format_prices, find_words,
    mark_words, index_words, score_words, merge_lists, group_offers, estimate_delivery, escape_names,
    build_links, encode_ids, sign_page, compress_page, render_rows, count_letters, clean_names, pick_colors,
    sum_by_seller, number_pages,
)  # fmt: skip


async def handle(request: web.Request) -> web.Response:
    for step in STEPS:
        step()
    return web.Response(text="ok\n")


async def serve(port_file: Path, seconds: float) -> None:
    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port_file.write_text(f"{runner.addresses[0][1]}\n")
    await asyncio.sleep(seconds)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
