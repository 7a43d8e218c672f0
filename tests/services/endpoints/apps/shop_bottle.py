"""Bottle, for any WSGI server: functions, one of them behind a decorator."""

import functools

import bottle
from work import burn

app = bottle.Bottle()


def audited(callback):
    @functools.wraps(callback)
    def wrapper(*args, **kwargs):
        return callback(*args, **kwargs)

    return wrapper


@app.get("/")
def show_home():
    burn()
    return "ok\n"


@app.get("/cart")
@audited
def show_cart():
    burn()
    return "ok\n"
