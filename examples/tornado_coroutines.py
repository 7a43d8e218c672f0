"""A small service on Tornado in the old style: handlers are generators that yield what they wait for."""

from datetime import timedelta

from listening import listening_socket
from tornado import gen, util, web
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.locks import Event


@gen.coroutine
def call_backend(milliseconds: int):
    """Stand for a call to another service that answers after that time."""
    yield gen.sleep(milliseconds / 1000)
    return milliseconds


class Handle50(web.RequestHandler):
    """Wait for one backend."""

    @gen.coroutine
    def get(self):
        waited = yield call_backend(50)
        self.write({"waited_ms": waited})


class Handle125(web.RequestHandler):
    """Wait for one backend, then for two at once, then for one that is slower than we are ready to wait."""

    @gen.coroutine
    def get(self):
        first = yield call_backend(50)
        both = yield [call_backend(50), call_backend(50)]
        try:
            yield gen.with_timeout(timedelta(milliseconds=25), call_backend(50))
            gave_up = False
        except util.TimeoutError:
            gave_up = True
        self.write({"waited_ms": [first, *both], "gave_up": gave_up})


class HandleHealth(web.RequestHandler):
    """Say that the service is up."""

    def get(self):
        self.write("ok\n")


def application():
    """Build the application with its three routes."""
    return web.Application([("/50", Handle50), ("/125", Handle125), ("/healthz", HandleHealth)])


@gen.coroutine
def serve():
    """Serve until the process is ended."""
    HTTPServer(application()).add_socket(listening_socket())
    yield Event().wait()


if __name__ == "__main__":
    IOLoop().run_sync(serve)
