"""Falcon, for any WSGI server."""

import falcon
from work import burn, wait_for_backend


class Resource:
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        wait_for_backend()
        burn()
        response.text = "ok\n"


app = falcon.App()
app.add_route("/", Resource())
