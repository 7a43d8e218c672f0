"""Falcon as WSGI, behind a middleware and a hook."""

import falcon
from work import burn


class AuditMiddleware:
    def process_request(self, request, response):
        burn()


def check_session(request, response, resource, params):
    burn()


class Home:
    def on_get(self, request, response):
        burn()
        response.text = "ok\n"


class Orders:
    @falcon.before(check_session)
    def on_get_list(self, request, response):
        burn()
        response.text = "ok\n"


app = falcon.App(middleware=[AuditMiddleware()])
app.add_route("/", Home())
app.add_route("/orders", Orders(), suffix="list")
