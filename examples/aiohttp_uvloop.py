"""The aiohttp service again, unchanged, on the uvloop event loop."""

import uvloop
from aiohttp_asyncio import serve

if __name__ == "__main__":
    serve(uvloop.new_event_loop())
