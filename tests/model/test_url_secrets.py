from __future__ import annotations

import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.errors import SidelightError, mask_urls


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("at http://shop:s3cret@host:9000/x: refused", "at http://shop:***@host:9000/x: refused"),
        ("http://shop:s3cr/et@host/x", "http://shop:***@host/x"),
        ("http://shop:12'3@host", "http://shop:***@host"),
        ("https://t0ken@host/x", "https://***@host/x"),
        ("redis://:s3cret@[::1]:1/0", "redis://:***@[::1]:1/0"),
        ("http://u:p@one and http://v:w@two", "http://u:***@one and http://v:***@two"),
        ("clickhouse://u:p@h/?endpoint=http://a:b@c", "clickhouse://u:***@h/?endpoint=http://a:***@c"),
        ("GET /hook?a=1&token=s3cret&b=2 failed", "GET /hook?a=1&token=***&b=2 failed"),
        (
            "https://h/o?X-Amz-Credential=K&X-Amz-Signature=5&x=1",
            "https://h/o?X-Amz-Credential=***&X-Amz-Signature=***&x=1",
        ),
        ("https://h/?key=s3cret#access_token=s3cret", "https://h/?key=***#access_token=***"),
    ],
)
def test_passwords_and_tokens_in_urls_are_masked(text: str, masked: str) -> None:
    assert mask_urls(text) == masked
    assert mask_urls(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "http://host:9000/a@b",
        "http://host/a:b@c",
        "https://host:443/?to=a:b@c&monkey=1",
        "see http://host:80 and mail a@b.c",
        "registry/python:3.12@sha256:0123",
        '{service="shop", path=~"/a?b=c"}',
        "s3://bucket/prefix",
    ],
)
def test_texts_without_secrets_are_unchanged(text: str) -> None:
    assert mask_urls(text) == text


@given(
    st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S")), min_size=1).map(
        lambda text: quote(f"zq{text}zq", safe="")
    ),
    st.sampled_from(["http", "https", "clickhouse", "postgresql+psycopg"]),
)
def test_no_part_of_an_encoded_password_is_left(password: str, scheme: str) -> None:
    masked = mask_urls(f"cannot reach '{scheme}://shop:{password}@host:1/?password={password}&x=1': refused")
    assert masked == f"cannot reach '{scheme}://shop:***@host:1/?password=***&x=1': refused"


@pytest.mark.parametrize("part", ["://a", "a://b:c", "?a", "a", "@", "://@:", "?token"])
def test_masking_takes_linear_time(part: str) -> None:
    begin = time.process_time()
    mask_urls(f"://@={part * 20_000}")
    assert time.process_time() - begin < 30


def test_errors_mask_their_message_and_hint() -> None:
    error = SidelightError("no answer from http://u:s3cret@host", hint="Check http://u:s3cret@host.")
    assert "s3cret" not in f"{error} {error.message} {error.hint} {error!r}"
