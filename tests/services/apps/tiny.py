"""A small HTTP server on asyncio's streams, for services that show something else than a framework."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from work import WAIT_SECONDS


def listening(port: int) -> socket.socket:
    """A socket that listens on loopback."""
    return socket.create_server(("127.0.0.1", port), backlog=512)


def serve(sock: socket.socket, compute: Callable[[], object]) -> None:
    """Answer every request: wait as for a backend, then compute."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while await reader.readline() not in (b"\r\n", b"\n", b""):
                pass
            await asyncio.sleep(WAIT_SECONDS)
            compute()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
            await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, sock=sock)
        async with server:
            await server.serve_forever()

    asyncio.run(main())
