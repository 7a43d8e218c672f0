"""The package of a frame and whose code it is, parsed from the frame's text.

The UI has the same rules in `web/src/flamegraph/tree/packages.ts` and `groups.ts`; the test vectors in
`web/test/vectors/packages.json` and `groups.json` check both.
"""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

_LEADING = re.compile(r"^[/<]+")
_ENDING = re.compile(r"\.(?:py|pyx|so)\Z|>\Z")

_REMOVED_MODULES = (
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap msilib nis "
    "nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib"
)
STDLIB_MODULES: Final = frozenset(
    [
        *(name for name in sys.stdlib_module_names if not name.startswith("_")),
        *_REMOVED_MODULES.split(),
        "_weakrefset",
    ]
)
"""Modules of the standard library, including those that Python versions after 3.11 removed."""

_THIRD_PARTY_NAMES = (
    "aiobotocore aiofiles aiohttp aiokafka alembic amqp anyio arrow asgiref asyncpg attr attrs babel "
    "billiard boto3 botocore bs4 cachetools celery certifi cffi chardet charset_normalizer cheroot "
    "cherrypy clickhouse_driver click confluent_kafka corsheaders cryptography dask dateutil ddtrace "
    "diskcache django django_filters dns elasticsearch elasticsearch_dsl email_validator eventlet "
    "falcon fastapi flask flask_cors flask_login flask_sqlalchemy fsspec gevent google graphene graphql "
    "greenlet grpc gunicorn h11 h2 hpack httpcore httptools httpx hypercorn idna importlib_metadata "
    "itsdangerous jinja2 jose joblib jsonschema jwt kafka kombu langchain litestar loguru lxml mako "
    "markdown markupsafe marshmallow matplotlib mongoengine motor multidict mypy_extensions mysql "
    "MySQLdb newrelic nltk numba numpy oauthlib openai openpyxl opentelemetry orjson packaging pandas "
    "paramiko passlib peewee PIL pika pip pkg_resources polars prometheus_client propcache protobuf "
    "psutil psycopg psycopg2 py_spy pyarrow pyasn1 pydantic pydantic_core pydantic_settings pygments "
    "pymongo pymysql pynamodb pyramid pytest pytz quart raven ray redis regex requests rest_framework "
    "rich rq rsa s3transfer sanic scipy scrapy sentry_sdk setuptools simplejson six sklearn slack_sdk "
    "sniffio sqlalchemy sqlmodel starlette statsd stripe structlog tenacity tensorflow thrift tiktoken "
    "toolz torch tornado tortoise tqdm transformers trio twisted typing_extensions tzlocal ujson "
    "urllib3 uvicorn uvloop vine waitress watchdog watchfiles webob websocket websockets werkzeug "
    "whitenoise wrapt wsproto wtforms xgboost yaml yarl zeep zope zstandard"
)
THIRD_PARTY_PACKAGES: Final = frozenset(_THIRD_PARTY_NAMES.split())
"""Packages that most services are made of.

Files are named from the outermost package on, which does not say where that was installed.
"""
_THIRD_PARTY_FILE = re.compile(r"(^|/)(site|dist)-packages/|\.(so|dylib|pyd)(\.[0-9]+)*\Z")
_STDLIB_FILE = re.compile(r"(^|/)(lib(64)?/python3(\.[0-9]+)?|python3[0-9]+\.zip)/")


class PackageKind(StrEnum):
    """The origin of a package.

    `package`: any package outside the standard library; `none`: a frame without a file.
    """

    PACKAGE = "package"
    STDLIB = "stdlib"
    NONE = "none"


class Package(NamedTuple):
    """A top-level package and its origin."""

    name: str
    kind: PackageKind


def classify_frame(text: str) -> Package:
    """Find the package of a frame.

    `text` is not escaped: `function (file)` or `function (file:line)`.
    """
    return _classify_file(extract_file(text))


def _classify_file(file: str) -> Package:
    if not file:
        return Package("", PackageKind.NONE)
    name = find_package_name(file)
    return Package(
        name,
        PackageKind.STDLIB if name in STDLIB_MODULES or file.startswith("<frozen") else PackageKind.PACKAGE,
    )


class CodeOwner(StrEnum):
    """Whose code a frame is.

    `no file`: the interpreter, generated code, or a frame such as `(truncated)`.
    """

    APPLICATION = "application"
    THIRD_PARTY = "third party"
    STANDARD_LIBRARY = "standard library"
    NO_FILE = "no file"


def find_code_owner(text: str) -> CodeOwner:
    """Find whose code a frame is.

    Third party are files in `site-packages`, native code and `THIRD_PARTY_PACKAGES`. The application's code
    is the rest.
    """
    return _find_file_owner(extract_file(text))


@lru_cache(maxsize=16_384)
def _find_file_owner(file: str) -> CodeOwner:
    name, kind = _classify_file(file)
    if kind is PackageKind.NONE or (file.startswith("<") and not file.startswith("<frozen")):
        return CodeOwner.NO_FILE
    if name in THIRD_PARTY_PACKAGES or _THIRD_PARTY_FILE.search(file):
        return CodeOwner.THIRD_PARTY
    is_stdlib = kind is PackageKind.STDLIB or _STDLIB_FILE.search(file)
    return CodeOwner.STANDARD_LIBRARY if is_stdlib else CodeOwner.APPLICATION


def find_package_name(file: str) -> str:
    """Return the top-level package of a file.

    A file without a folder is its own package.
    """
    return _ENDING.sub("", _LEADING.sub("", file).split("/", 1)[0])


def extract_file(text: str) -> str:
    """Return the file in a frame's text, or an empty text."""
    opened = text.rfind(" (")
    if opened <= 0 or not text.endswith(")"):
        return ""
    place = text[opened + 2 : -1]
    file, _, line = place.rpartition(":")
    return file if file and line.isascii() and line.isdigit() else place
