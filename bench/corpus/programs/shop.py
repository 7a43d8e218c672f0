"""A Django shop that handles one request after another, as a WSGI worker does.

    python shop.py SECONDS

It uses the ORM, templates and sessions. It needs only Django: the database is SQLite in memory, and the
program generates its own requests.
"""

import io
import random
import sys
import time

import django
from django import forms
from django.conf import settings
from django.core.cache import cache
from django.core.paginator import Paginator
from django.db import connection, models, transaction
from django.db.models import Avg, Count, F, Q, Sum
from django.http import HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, redirect
from django.template import engines
from django.urls import path, reverse

settings.configure(
    SECRET_KEY="for a benchmark",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.middleware.gzip.GZipMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
    ],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": {}}],
    SESSION_ENGINE="django.contrib.sessions.backends.db",
)
django.setup()

PAGE = """<!doctype html><title>{{ title|escape }}</title>
{% for product in page %}
  <article id="p{{ product.pk }}"><h2>{{ product.name|title|truncatewords:6 }}</h2>
  {% if product.price > 50 %}<b>{{ product.price|floatformat:2 }}</b>{% else %}{{ product.price }}{% endif %}
  <ul>{% for tag in product.tags.all %}
  <li class="{% cycle 'odd' 'even' %}">{{ tag.name|upper|linebreaksbr }}</li>
  {% empty %}<li>none</li>{% endfor %}</ul>
  <a href="{{ product.url }}">{{ product.added|date:"Y-m-d H:i" }}</a>
  {% with stars=product.stars|default:0 %}{{ stars|floatformat:1 }} of {{ page|length }}{% endwith %}
  </article>
{% endfor %}
{% if page.has_next %}next {{ page.next_page_number }}{% endif %}"""


class Tag(models.Model):
    name = models.CharField(max_length=40)

    class Meta:
        app_label = "auth"


class Product(models.Model):
    name = models.CharField(max_length=80)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField()
    added = models.DateTimeField(auto_now_add=True)
    tags = models.ManyToManyField(Tag)

    class Meta:
        app_label = "auth"
        ordering = ["name"]

    @property
    def url(self):
        return reverse("detail", args=[self.pk])


class Review(models.Model):
    product = models.ForeignKey(Product, models.CASCADE, related_name="reviews")
    stars = models.IntegerField()
    text = models.TextField()

    class Meta:
        app_label = "auth"


class Order(models.Model):
    email = models.EmailField()
    placed = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "auth"


class Line(models.Model):
    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, models.CASCADE)
    count = models.IntegerField()

    class Meta:
        app_label = "auth"


class OrderForm(forms.Form):
    email = forms.EmailField()
    count = forms.IntegerField(min_value=1, max_value=9)
    when = forms.DateTimeField(required=False)
    kind = forms.ChoiceField(choices=[("gift", "Gift"), ("own", "Own")])
    note = forms.CharField(max_length=200, required=False, widget=forms.Textarea)

    def clean_note(self):
        return " ".join(self.cleaned_data["note"].split())


def listing(request):
    rated = Product.objects.filter(stock__gt=0).annotate(stars=Avg("reviews__stars"))
    found = rated.prefetch_related("tags").order_by("name")
    page = Paginator(found, 12).get_page(request.GET.get("page", 1))
    return HttpResponse(engines["django"].from_string(PAGE).render({"page": page, "title": "All"}, request))


def search(request):
    words = request.GET.get("q", "").split()
    wanted = Q()
    for word in words:
        wanted |= Q(name__icontains=word) | Q(tags__name__istartswith=word)
    found = Product.objects.filter(wanted).distinct().select_related().order_by("-price", "name")[:20]
    return HttpResponse(PAGE_TEMPLATE.render({"page": list(found), "title": " ".join(words)}, request))


def detail(request, key):
    product = get_object_or_404(Product.objects.prefetch_related("tags", "reviews"), pk=key)
    request.session["seen"] = [*request.session.get("seen", [])[-9:], key]
    stars = product.reviews.aggregate(mean=Avg("stars"), many=Count("pk"))
    body = PAGE_TEMPLATE.render({"page": [product], "title": product.name, "stars": stars}, request)
    return HttpResponse(body + get_token(request))


def order(request, key):
    form = OrderForm(request.POST)
    if not form.is_valid():
        return HttpResponse(form.as_p() + str(form.errors), status=400)
    with transaction.atomic():
        placed = Order.objects.create(email=form.cleaned_data["email"])
        Line.objects.create(order=placed, product_id=key, count=form.cleaned_data["count"])
        Product.objects.filter(pk=key).update(stock=F("stock") - form.cleaned_data["count"])
    return redirect(reverse("detail", args=[key]))


def report(request):
    def make():
        rows = Line.objects.values("product__name").annotate(sold=Sum("count")).order_by("-sold")[:50]
        return [{"name": row["product__name"], "sold": row["sold"]} for row in rows]

    rows = cache.get_or_set(f"report-{random.randrange(3)}", make, 1)
    return JsonResponse({"rows": rows, "products": list(Product.objects.values("id", "name", "price")[:40])})


urlpatterns = [
    path("", listing),
    path("search/", search),
    path("p/<int:key>/", detail, name="detail"),
    path("p/<int:key>/order/", order),
    path("report/", report),
]
PAGE_TEMPLATE = engines["django"].from_string(PAGE)


def fill(luck):
    with connection.schema_editor() as editor:
        for model in (Tag, Product, Review, Order, Line):
            editor.create_model(model)
        from django.contrib.contenttypes.models import ContentType
        from django.contrib.sessions.models import Session

        for model in (ContentType, Session):
            editor.create_model(model)
    words = [
        "red",
        "green",
        "blue",
        "small",
        "large",
        "fine",
        "plain",
        "round",
        "square",
        "warm",
        "cold",
        "light",
        "heavy",
        "old",
        "new",
    ]
    tags = [Tag.objects.create(name=word) for word in words]
    for _ in range(120):
        name = " ".join(luck.sample(words, 3))
        one = Product.objects.create(name=name, price=luck.randrange(100, 20000) / 100, stock=10**6)
        one.tags.set(luck.sample(tags, 3))
        Review.objects.bulk_create(
            Review(product=one, stars=luck.randint(1, 5), text="fine " * 20)
            for _ in range(luck.randint(0, 9))
        )
    return words


def requests(luck, words):
    while True:
        key, kind = luck.randint(1, 120), luck.random()
        if kind < 0.25:
            yield "GET", "/", f"page={luck.randint(1, 10)}", b""
        elif kind < 0.45:
            yield "GET", "/search/", f"q={luck.choice(words)}+{luck.choice(words)}", b""
        elif kind < 0.75:
            yield "GET", f"/p/{key}/", "", b""
        elif kind < 0.9:
            email = "someone%40example.org" if luck.random() < 0.8 else "nobody"
            body = f"email={email}&count={luck.randint(1, 12)}&kind=gift&note=a++b&when=2026-11-21+10%3A00"
            yield "POST", f"/p/{key}/order/", "", body.encode()
        elif kind < 0.98:
            yield "GET", "/report/", "", b""
        else:
            yield "GET", "/nowhere/", "", b""


def answer(application, request, cookies):
    method, where, query, body = request
    headers = {}
    environ = {
        "REQUEST_METHOD": method, "PATH_INFO": where, "QUERY_STRING": query, "SERVER_NAME": "shop",
        "SERVER_PORT": "80", "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": "application/x-www-form-urlencoded", "wsgi.url_scheme": "http",
        "HTTP_ACCEPT_ENCODING": "gzip", "HTTP_COOKIE": "; ".join(f"{k}={v}" for k, v in cookies.items()),
        "HTTP_X_CSRFTOKEN": cookies.get("csrftoken", ""), "wsgi.errors": sys.stderr,
        "REMOTE_ADDR": "127.0.0.1",
    }  # fmt: skip
    chunks = application(environ, lambda status, given: headers.update(given))
    for chunk in chunks:
        len(chunk)
    chunks.close()
    name, _, rest = headers.get("Set-Cookie", "").partition("=")
    if name:
        cookies[name] = rest.partition(";")[0]


def serve(seconds):
    from django.core.wsgi import get_wsgi_application

    luck = random.Random(1)
    words = fill(luck)
    application, cookies, end = get_wsgi_application(), {}, time.monotonic() + seconds
    for number, request in enumerate(requests(luck, words)):
        if time.monotonic() > end:
            return
        answer(application, request, cookies)
        if number % 50 == 0:
            cookies.clear()
        time.sleep(luck.expovariate(1500))


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    serve(float(sys.argv[1]))
