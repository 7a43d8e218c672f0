import { frameParts, packageOf } from "./packages.ts";

/** Whose code a frame is. */
export type Group = "application" | "third party" | "standard library" | "no file";

/**
 * The group of a frame. Frames name files from the outermost package on, which does not say where that was installed;
 * so third party is what lies in `site-packages`, is native code or is one of the packages that most services are made
 * of, and application is the rest. Files in angle brackets are the interpreter's, or generated.
 * `sidelight_model.packages` has the same rule.
 */
export function groupOf(text: string): Group {
  const { name, kind } = packageOf(text);
  const { file } = frameParts(text);
  if (kind === "none" || (file.startsWith("<") && !file.startsWith("<frozen"))) return "no file";
  if (THIRD_PARTY.has(name) || THIRD_PARTY_FILE.test(file)) return "third party";
  return kind === "stdlib" || STDLIB_FILE.test(file) ? "standard library" : "application";
}

const THIRD_PARTY_FILE = /(^|\/)(site|dist)-packages\/|\.(so|dylib|pyd)(\.[0-9]+)*$/;
const STDLIB_FILE = /(^|\/)(lib(64)?\/python3(\.[0-9]+)?|python3[0-9]+\.zip)\//;

const THIRD_PARTY = new Set((
  "aiobotocore aiofiles aiohttp aiokafka alembic amqp anyio arrow asgiref asyncpg attr attrs babel billiard boto3 " +
  "botocore bs4 cachetools celery certifi cffi chardet charset_normalizer cheroot cherrypy clickhouse_driver click " +
  "confluent_kafka corsheaders cryptography dask dateutil ddtrace diskcache django django_filters dns elasticsearch " +
  "elasticsearch_dsl email_validator eventlet falcon fastapi flask flask_cors flask_login flask_sqlalchemy fsspec " +
  "gevent google graphene graphql greenlet grpc gunicorn h11 h2 hpack httpcore httptools httpx hypercorn idna " +
  "importlib_metadata itsdangerous jinja2 jose joblib jsonschema jwt kafka kombu langchain litestar loguru lxml mako " +
  "markdown markupsafe marshmallow matplotlib mongoengine motor multidict mypy_extensions mysql MySQLdb newrelic nltk " +
  "numba numpy oauthlib openai openpyxl opentelemetry orjson packaging pandas paramiko passlib peewee PIL pika pip " +
  "pkg_resources polars prometheus_client propcache protobuf psutil psycopg psycopg2 py_spy pyarrow pyasn1 pydantic " +
  "pydantic_core pydantic_settings pygments pymongo pymysql pynamodb pyramid pytest pytz quart raven ray redis " +
  "regex requests rest_framework rich rq rsa s3transfer sanic scipy scrapy sentry_sdk setuptools simplejson six " +
  "sklearn slack_sdk sniffio sqlalchemy sqlmodel starlette statsd stripe structlog tenacity tensorflow thrift " +
  "tiktoken toolz torch tornado tortoise tqdm transformers trio twisted typing_extensions tzlocal ujson urllib3 uvicorn " +
  "uvloop vine waitress watchdog watchfiles webob websocket websockets werkzeug whitenoise wrapt wsproto wtforms xgboost " +
  "yaml yarl zeep zope zstandard"
).split(" "));
