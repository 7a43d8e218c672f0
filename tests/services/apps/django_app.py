"""Django in one file, for an ASGI server: its view is blocking code, run in a thread beside the loop."""

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from work import burn, wait_for_backend


def handle(request: HttpRequest) -> HttpResponse:
    wait_for_backend()
    burn()
    return HttpResponse("ok\n")


urlpatterns = [path("", handle)]
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, SECRET_KEY="not-one", LOGGING_CONFIG=None
)
django.setup()
application = get_asgi_application()
