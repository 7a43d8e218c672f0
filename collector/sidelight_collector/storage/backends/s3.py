"""An object store in a bucket of S3 or an S3-compatible service.

Credentials, region and (without --s3-endpoint) the endpoint come from the SDK's own chain: environment,
shared files, web identity, instance role. The bucket's settings determine encryption at rest.
Conditional writes use `If-None-Match: *` and `If-Match`.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final
from xml.etree import ElementTree

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
)

from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    check_condition,
    check_key,
    check_range,
)

_MAX_CONNECTIONS: Final = 32
_PUT_CONCURRENCY: Final = 8
"""Limit of concurrent writes of the objects of segments and blocks, but for their last."""
_CONFLICT_ATTEMPTS: Final = 10
_MISSING_CODES: Final = ("NoSuchKey", "404", "NotFound")
_RANGE_CODES: Final = ("InvalidRange", "416")
_PRECONDITION_CODES: Final = ("PreconditionFailed", "412")
# A retry helps after two concurrent conditional writes, and if a gateway in front of a file system finds a
# directory that another client's delete is just emptying.
_CONFLICT_CODES: Final = ("ConditionalRequestConflict", "OperationAborted", "ExistingObjectIsDirectory")
_HINTS: Final = {
    "NoSuchBucket": "Create the bucket first: the collector never does.",
    "AccessDenied": "Allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket on this bucket.",
    "InvalidAccessKeyId": "The key is unknown there: check the credentials and --s3-endpoint.",
    "SignatureDoesNotMatch": "Check the secret key, and that the clocks agree.",
    "RequestTimeTooSkewed": "Set this machine's clock.",
    "PermanentRedirect": "The bucket is in another region: set AWS_DEFAULT_REGION.",
    "AuthorizationHeaderMalformed": "The bucket is in another region: set AWS_DEFAULT_REGION.",
}


class S3Store:
    """An object store in one bucket, below a prefix that may be empty."""

    kind = "s3"

    def __init__(self, bucket: str, prefix: str = "", *, endpoint: str | None = None, timeout: float = 20.0):
        """`timeout` is in seconds, for each of at most four attempts of a request."""
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._endpoint = endpoint
        session = boto3.session.Session()
        with self._translate_errors(""):
            self._client = session.client(
                "s3",
                endpoint_url=endpoint,
                region_name=session.region_name or "us-east-1",
                config=Config(
                    connect_timeout=min(timeout, 5.0),
                    read_timeout=timeout,
                    retries={"mode": "standard", "total_max_attempts": 4},
                    max_pool_connections=_MAX_CONNECTIONS,
                    # Many S3-compatible servers do not support the newer trailing checksums.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                    s3={"addressing_style": "path" if endpoint else "auto"},
                ),
            )
        self._write_executor = ThreadPoolExecutor(_PUT_CONCURRENCY, thread_name_prefix="s3-put")
        # Wildcards come first, so that the SDK's search for errors reads only what is left.
        self._client.meta.events.register_first("before-parse.*.*", _parse_contents)

    @property
    def location(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def url(self) -> str:
        """The HTTP URL prefix of the objects' keys, for readers other than the collector."""
        return f"{self._client.meta.endpoint_url.rstrip('/')}/{self._bucket}/{self._prefix}"

    def get(self, key: str) -> bytes:
        return self.get_with_etag(key)[0]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        check_range(start, end)
        name = self._full_key(key)
        with self._translate_errors(key):
            try:
                response = self._client.get_object(
                    Bucket=self._bucket, Key=name, Range=f"bytes={start}-{end - 1}"
                )
            except ClientError as error:
                if _error_code(error) in _RANGE_CODES:
                    return b""
                raise
            content = response["Body"].read()
            # A server may ignore the range.
            return content if "ContentRange" in response else content[start:end]

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        name = self._full_key(key)
        with self._translate_errors(key):
            response = self._client.get_object(Bucket=self._bucket, Key=name)
            return response["Body"].read(), response["ETag"]

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        check_condition(if_absent=if_absent, if_match=if_match)
        name = self._full_key(key)
        with self._translate_errors(key, replacing=if_match is not None):
            for attempt in range(_CONFLICT_ATTEMPTS):
                try:
                    return self._put_once(name, content, if_absent=if_absent, if_match=if_match)
                except ClientError as error:
                    if _error_code(error) not in _CONFLICT_CODES or attempt == _CONFLICT_ATTEMPTS - 1:
                        raise
        raise AssertionError("the last attempt returns or raises")

    def put_all(self, contents: Mapping[str, bytes], *, last_if_absent: bool = False) -> None:
        *others, (last, content) = contents.items()
        writes = [self._write_executor.submit(self.put, *other) for other in others]
        wait(writes)  # also those that follow an error, as the caller then deletes what was written
        for write in writes:
            write.result()
        self.put(last, content, if_absent=last_if_absent)

    def _put_once(self, name: str, content: bytes, *, if_absent: bool, if_match: str | None) -> str:
        if if_absent:
            response = self._client.put_object(Bucket=self._bucket, Key=name, Body=content, IfNoneMatch="*")
        elif if_match is not None:
            response = self._client.put_object(Bucket=self._bucket, Key=name, Body=content, IfMatch=if_match)
        else:
            response = self._client.put_object(Bucket=self._bucket, Key=name, Body=content)
        return response["ETag"]

    def delete(self, key: str) -> None:
        name = self._full_key(key)
        try:
            with self._translate_errors(key):
                self._client.delete_object(Bucket=self._bucket, Key=name)
        except ObjectMissing:
            return

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket,
            Prefix=self._prefix + prefix,
            StartAfter=self._prefix + start_after if start_after else "",
        )
        with self._translate_errors(prefix):
            for page in pages:
                for item in page.get("Contents", []):
                    if not item["Key"].endswith("/"):  # some servers list directories as objects
                        key = item["Key"].removeprefix(self._prefix)
                        modified = item["LastModified"].timestamp()
                        yield ObjectEntry(key, item["Size"], modified, item.get("ETag"))

    def set_segment_expiration(self, days: int, *, apply: bool) -> str:
        """Return the lifecycle rule, as JSON, that deletes segments after `days` days.

        With `apply`, the rule is added to the bucket or replaced there; other rules stay unchanged.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lifecycle-mgmt.html
        """
        prefix = f"{self._prefix}v1/l0/"
        rule: dict[str, Any] = {
            "ID": f"sidelight segments {prefix}"[:255],
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "Expiration": {"Days": days},
        }
        if apply:
            with self._translate_errors(prefix):
                rules = [
                    *(other for other in self._get_lifecycle_rules() if other.get("ID") != rule["ID"]),
                    rule,
                ]
                self._client.put_bucket_lifecycle_configuration(
                    Bucket=self._bucket, LifecycleConfiguration={"Rules": rules}
                )
        return json.dumps(rule)

    def _get_lifecycle_rules(self) -> Sequence[Any]:
        try:
            response = self._client.get_bucket_lifecycle_configuration(Bucket=self._bucket)
        except ClientError as error:
            if _error_code(error) == "NoSuchLifecycleConfiguration":
                return []
            raise
        return response.get("Rules", [])

    def _full_key(self, key: str) -> str:
        return check_key(self._prefix + check_key(key))

    @contextmanager
    def _translate_errors(self, key: str, *, replacing: bool = False) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            raise self._to_store_error(key, error, replacing=replacing) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise StoreRefused(
                f"no credentials for {self.location}",
                hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the process a role.",
            ) from error
        except (EndpointConnectionError, HTTPClientError, IncompleteReadError) as error:
            raise StoreUnavailable(
                f"{self.location} at {self._endpoint or 'its default endpoint'} does not answer: {error}",
                hint="Check --s3-endpoint, the network and that the service runs.",
            ) from error
        except KeyError as error:
            raise StoreRefused(
                f"{self.location} gives an answer without {error}",
                hint="The service is not compatible with S3: check --s3-endpoint.",
            ) from error
        except (BotoCoreError, ValueError) as error:
            raise StoreRefused(
                f"{self.location} cannot be used: {error}",
                hint="Check --store, --s3-endpoint and the credentials.",
            ) from error

    def _to_store_error(self, key: str, error: ClientError, *, replacing: bool) -> StoreError:
        code = _error_code(error)
        if code in _PRECONDITION_CODES:
            return ObjectChanged(key) if replacing else ObjectExists(key)
        if code in _MISSING_CODES:
            return ObjectChanged(key) if replacing else ObjectMissing(key)
        message = (
            f"{self.location} answered {code}: {error.response['Error'].get('Message') or 'no reason given'}"
        )
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        hint = _HINTS.get(code, "") or (_HINTS["AccessDenied"] if status == 403 else "")
        if (status >= 500 and code != "NotImplemented") or code in (
            "SlowDown",
            "RequestTimeout",
            *_CONFLICT_CODES,
        ):
            return StoreUnavailable(message, hint="The service has trouble; the collector goes on trying.")
        return StoreRefused(message, hint=hint or "The service's own log says more.")


def _error_code(error: ClientError) -> str:
    return error.response["Error"].get("Code", "")


def _parse_contents(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Parse the objects of a listing much faster than the SDK, which parses the rest.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
    """
    if operation_model.name != "ListObjectsV2" or response_dict["status_code"] != 200:
        return
    try:
        root = ElementTree.fromstring(response_dict["body"])  # noqa: S314 - as the SDK does
    except ElementTree.ParseError:
        return  # the SDK reports it, and tries again
    items = [item for item in root if _local_name(item) == "Contents"]
    customized_response_dict["Contents"] = list(map(_parse_item, items))
    for item in items:
        root.remove(item)
    response_dict["body"] = ElementTree.tostring(root)


def _parse_item(item: ElementTree.Element) -> dict[str, Any]:
    fields: dict[str, Any] = {_local_name(field): field.text or "" for field in item}
    modified = datetime.fromisoformat(fields["LastModified"])
    return {**fields, "Key": fields["Key"], "Size": int(fields["Size"]), "LastModified": modified}


def _local_name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
