"""Twisted's web server on its own reactor: `twisted_app.py PORT`."""

import sys

from twisted.internet import reactor, task
from twisted.web import resource, server
from work import WAIT_SECONDS, burn


class Page(resource.Resource):
    isLeaf = True  # noqa: N815

    def render_GET(self, request: server.Request) -> int:  # noqa: N802
        task.deferLater(reactor, WAIT_SECONDS, self.answer, request)
        return server.NOT_DONE_YET

    def answer(self, request: server.Request) -> None:
        burn()
        request.write(b"ok\n")
        request.finish()


if __name__ == "__main__":
    reactor.listenTCP(int(sys.argv[1]), server.Site(Page()), interface="127.0.0.1")
    reactor.run()
