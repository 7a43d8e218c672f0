"""Flask, for any WSGI server."""

from flask import Flask
from work import burn, wait_for_backend

app = Flask(__name__)


@app.route("/")
def handle() -> str:
    wait_for_backend()
    burn()
    return "ok\n"
