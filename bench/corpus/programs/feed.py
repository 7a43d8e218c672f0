"""An aiohttp service, with a second process that sends load.

    python feed.py SECONDS

The load consists of JSON, streams, SQLite in threads, and WebSockets.
"""

import asyncio
import base64
import contextlib
import csv
import hashlib
import hmac
import io
import json
import random
import sqlite3
import subprocess
import sys
import time
import zlib
from collections import Counter, deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from urllib.parse import parse_qs, urlencode, urlsplit
from xml.etree import ElementTree

from aiohttp import ClientError, ClientSession, CookieJar, FormData, WSMsgType, web

LATEST = web.AppKey("latest", deque)
SESSION = web.AppKey("session", ClientSession)


@dataclass
class Item:
    key: int
    title: str
    words: list
    added: str


def signed(body):
    return base64.urlsafe_b64encode(hmac.new(b"key", body, hashlib.sha256).digest()).decode()


def made_up(luck, key):
    words = ["".join(luck.choices("abcdefgh", k=6)) for _ in range(40)]
    added = datetime.now(UTC) - timedelta(seconds=luck.randrange(10**6))
    return Item(key, " ".join(words[:4]), words, added.isoformat())


def query(text):
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.execute("create table item (key integer, word text)")
        base.executemany("insert into item values (?, ?)", enumerate(text * 3))
        return base.execute(
            "select word, count(*) from item group by word order by 2 desc limit 9"
        ).fetchall()


def as_feed(items):
    root = ElementTree.Element("feed")
    for item in items:
        entry = ElementTree.SubElement(root, "entry", id=str(item.key))
        ElementTree.SubElement(entry, "title").text = item.title
        ElementTree.SubElement(entry, "updated").text = datetime.fromisoformat(item.added).strftime("%c")
    return ElementTree.tostring(root)


def as_table(items):
    out = io.StringIO()
    writer = csv.DictWriter(out, ["key", "title", "added"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(asdict(item) for item in items)
    return out.getvalue()


def as_mail(items):
    mail = EmailMessage()
    mail["Subject"] = items[0].title
    mail["To"] = "somebody@example.org"
    mail.set_content("\n".join(item.title for item in items))
    mail.add_attachment(as_feed(items), maintype="application", subtype="xml", filename="feed.xml")
    return mail.as_bytes()


@web.middleware
async def timed(request, handler):
    began = time.perf_counter()
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers["X-Took"] = str(time.perf_counter() - began)
        raise
    if not response.prepared:
        response.headers["X-Took"] = str(time.perf_counter() - began)
    return response


@web.middleware
async def known(request, handler):
    seen = request.cookies.get("seen", "0")
    response = await handler(request)
    if not response.prepared:
        response.set_cookie("seen", str(int(seen) + 1), max_age=60, httponly=True)
    return response


async def listed(request):
    items = list(request.app[LATEST])[-int(request.query.get("count", 20)) :]
    kind = request.match_info["kind"]
    if kind == "json":
        return web.json_response([asdict(item) for item in items])
    if kind == "xml":
        return web.Response(body=as_feed(items), content_type="application/xml")
    if kind == "csv":
        return web.Response(text=as_table(items), content_type="text/csv")
    if kind == "mail":
        return web.Response(body=await asyncio.to_thread(as_mail, items))
    raise web.HTTPNotFound(text="no such kind")


async def added(request):
    form = await request.post() if request.content_type != "application/json" else await request.json()
    item = made_up(random.Random(str(form.get("title"))), len(request.app[LATEST]))
    request.app[LATEST].append(item)
    raise web.HTTPSeeOther(f"/items.json?{urlencode({'count': 3, 'sign': signed(item.title.encode())})}")


async def counted(request):
    words = [word for item in request.app[LATEST] for word in item.words]
    rows = await asyncio.to_thread(query, words[:400])
    return web.json_response({"rows": rows, "most": Counter(words).most_common(5)})


async def streamed(request):
    response = web.StreamResponse()
    response.enable_compression()
    await response.prepare(request)
    for item in list(request.app[LATEST])[-10:]:
        await response.write(json.dumps(asdict(item), indent=1).encode())
        await asyncio.sleep(0)
    await response.write_eof()
    return response


async def talked(request):
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type == WSMsgType.TEXT:
            asked = parse_qs(urlsplit(message.data).query)
            await socket.send_json({"asked": asked, "sum": zlib.crc32(message.data.encode())})
    return socket


async def fanned(request):
    async def one(number):
        where = f"http://{request.host}/items.{random.choice(('json', 'csv'))}?count={number}"
        async with request.app[SESSION].get(where) as answer:
            return len(await answer.text())

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(1, 5)]
    return web.json_response([task.result() for task in tasks])


async def session(app):
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as app[SESSION]:
        yield


async def load(port):
    luck, base = random.Random(2), f"http://127.0.0.1:{port}"
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as http, asyncio.TaskGroup() as group:

        async def talk():
            while True:
                async with http.ws_connect(f"{base}/talk") as socket:
                    for number in range(30):
                        await socket.send_str(f"/?q={number}&q={luck.random()}")
                        await socket.receive(5)
                        await asyncio.sleep(luck.expovariate(30))

        async def ask():
            while True:
                kind = luck.random()
                with contextlib.suppress(ClientError):
                    if kind < 0.2:
                        form = FormData({"title": str(luck.random()), "more": "x" * luck.randrange(900)})
                        await http.post(f"{base}/items", data=form)
                    elif kind < 0.3:
                        await http.post(f"{base}/items", json={"title": str(luck.random())})
                    else:
                        kinds = ("items.json", "items.xml", "items.csv", "items.mail", "items.nothing")
                        where = luck.choice((*kinds, "words", "stream", "many"))
                        async with http.get(f"{base}/{where}") as answer:
                            await answer.read()
                await asyncio.sleep(luck.expovariate(250))

        for work in (talk, ask, ask, ask, ask):
            group.create_task(work())


async def serve(seconds):
    app = web.Application(middlewares=[timed, known])
    app[LATEST] = deque((made_up(random.Random(n), n) for n in range(200)), maxlen=300)
    app.cleanup_ctx.append(session)
    app.add_routes(
        [
            web.get("/items.{kind}", listed),
            web.post("/items", added),
            web.get("/words", counted),
            web.get("/stream", streamed),
            web.get("/talk", talked),
            web.get("/many", fanned),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    child = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, __file__, "load", str(runner.addresses[0][1])], stderr=subprocess.DEVNULL
    )
    try:
        await asyncio.sleep(seconds)
    finally:
        child.kill()
        child.wait()
        await runner.cleanup()


if __name__ == "__main__":
    if sys.argv[1] == "load":
        asyncio.run(load(int(sys.argv[2])))
    else:
        asyncio.run(serve(float(sys.argv[1])))
