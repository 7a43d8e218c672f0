"""Flask from a factory: closures, a class with methods, a coroutine, a decorator, and a hook."""

from functools import wraps

from flask import Blueprint, Flask
from flask.views import MethodView
from work import burn


def audited(view):
    @wraps(view)
    def decorated_view(*args, **kwargs):
        return view(*args, **kwargs)

    return decorated_view


class Orders(MethodView):
    decorators = [audited]

    def get(self):
        burn()
        return "ok\n"


admin = Blueprint("admin", __name__)


@admin.get("/admin")
def show_admin():
    burn()
    return "ok\n"


def create_app():
    app = Flask(__name__)

    @app.before_request
    def check_session():
        burn()

    @app.get("/")
    def show_home():
        burn()
        return "ok\n"

    @app.get("/checkout")
    @audited
    def checkout():
        burn()
        return "ok\n"

    @app.get("/search")
    async def search():
        burn()
        return "ok\n"

    app.add_url_rule("/orders", view_func=Orders.as_view("orders"))
    app.register_blueprint(admin)
    return app


app = create_app()
