"""Django, as WSGI and as ASGI: views of every kind, REST framework's too, behind a middleware."""

import functools
import os

import django
from django.conf import settings
from django.http import HttpResponse
from django.urls import path
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from work import burn

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework"],
    LOGGING_CONFIG=None,
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "shop_django.AuditMiddleware",
        "django.middleware.common.CommonMiddleware",
    ],
    REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None},
    ROOT_URLCONF="shop_django",
    SECRET_KEY="not-one",
)
django.setup()

from rest_framework import generics, serializers, viewsets  # noqa: E402
from rest_framework.decorators import api_view  # noqa: E402
from rest_framework.response import Response  # noqa: E402


class AuditMiddleware:
    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        burn()
        return self.get_response(request)


def audited(view):
    @functools.wraps(view)
    def wrapper(request, *args, **kwargs):
        return view(request, *args, **kwargs)

    return wrapper


def show_home(request):
    burn()
    return HttpResponse("ok\n")


@csrf_exempt
@audited
def checkout(request):
    reserve_stock(2)
    return HttpResponse("ok\n")


def reserve_stock(depth):
    burn() if depth == 0 else reserve_stock(depth - 1)


class CartView(View):
    def dispatch(self, request, *args, **kwargs):
        return super().dispatch(request, *args, **kwargs)

    def get(self, request):
        burn()
        return HttpResponse("ok\n")


async def search(request):
    burn()
    return HttpResponse("ok\n")


@api_view(["GET"])
def show_prices(request):
    burn()
    return Response({"price": 3})


class OrderViewSet(viewsets.ViewSet):
    def list(self, request):
        burn()
        return Response([])

    def retrieve(self, request, pk=None):
        burn()
        return Response({"order": pk})


class ItemSerializer(serializers.Serializer):
    name = serializers.CharField()


class ItemList(generics.ListAPIView):
    """Its handler is REST framework's: `ListAPIView.get`."""

    serializer_class = ItemSerializer

    def get_queryset(self):
        burn()
        return [{"name": "cup"}]


urlpatterns = [
    path("", show_home),
    path("checkout", checkout),
    path("cart", CartView.as_view()),
    path("search", search),
    path("prices", show_prices),
    path("orders", OrderViewSet.as_view({"get": "list"})),
    path("orders/<int:pk>", OrderViewSet.as_view({"get": "retrieve"})),
    path("items", ItemList.as_view()),
]

if os.environ.get("GATEWAY") == "asgi":
    from django.core.asgi import get_asgi_application

    app = get_asgi_application()
else:
    from django.core.wsgi import get_wsgi_application

    app = get_wsgi_application()
