"""Requests that a browser sends for a page of another site, and those of other clients."""

from __future__ import annotations

import pytest

from sidelight.request_origin import ForeignRequest, OriginPolicy, is_loopback, parse_host_name

LOOPBACK = OriginPolicy(is_loopback=True)
BEYOND = OriginPolicy()
NAMED = OriginPolicy(allowed_hosts=("profiles.example.com",))


def is_answered(policy: OriginPolicy, method: str, **headers: str) -> bool:
    try:
        policy.check(method, {name.replace("_", "-"): value for name, value in headers.items()})
    except ForeignRequest:
        return False
    return True


@pytest.mark.parametrize(
    ("policy", "host", "answered"),
    [
        (LOOPBACK, "127.0.0.1:8080", True),
        (LOOPBACK, "127.8.9.1", True),
        (LOOPBACK, "[::1]:8080", True),
        (LOOPBACK, "localhost:8080", True),
        (LOOPBACK, "LocalHost.", True),
        (LOOPBACK, "demo.localhost", True),
        (LOOPBACK, "", True),
        (LOOPBACK, "evil.example:8080", False),
        (LOOPBACK, "localhost.evil.example", False),
        (LOOPBACK, "127.0.0.1.evil.example", False),
        (LOOPBACK, "10.0.0.5:8080", False),
        (LOOPBACK, "[::1", False),
        (OriginPolicy(True, ("profiles.example.com",)), "profiles.example.com", True),
        (BEYOND, "evil.example", True),
        (NAMED, "evil.example", False),
        (NAMED, "profiles.example.com:443", True),
        (NAMED, "10.0.0.5:8080", True),
        (NAMED, "localhost:8080", True),
    ],
)
def test_a_server_answers_for_its_own_hosts(policy: OriginPolicy, host: str, answered: bool) -> None:
    assert is_answered(policy, "GET", Host=host) is answered
    assert is_answered(policy, "POST", Host=host) is answered


@pytest.mark.parametrize(
    ("headers", "answered"),
    [
        ({}, True),
        ({"Sec_Fetch_Site": "same-origin"}, True),
        ({"Sec_Fetch_Site": "same-origin", "Origin": "https://seen-by-the-browser.example"}, True),
        ({"Sec_Fetch_Site": "none"}, True),
        ({"Sec_Fetch_Site": "same-site"}, False),
        ({"Sec_Fetch_Site": "cross-site"}, False),
        ({"Sec_Fetch_Site": "cross-site", "Origin": "http://shop:8080"}, False),
        ({"Origin": "http://shop:8080"}, True),
        ({"Origin": "https://SHOP:8080"}, True),
        ({"Origin": "http://shop"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://["}, False),
    ],
)
def test_a_page_of_another_site_changes_nothing(headers: dict[str, str], answered: bool) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert is_answered(BEYOND, method, Host="shop:8080", **headers) is answered
    for method in ("GET", "HEAD", "OPTIONS"):
        assert is_answered(BEYOND, method, Host="shop:8080", **headers)


def test_a_page_of_an_allowed_host_may_change_something_behind_a_proxy_that_renames_the_host() -> None:
    assert is_answered(NAMED, "POST", Host="10.0.0.5:8080", Origin="https://profiles.example.com")


def test_a_refusal_names_the_host_and_the_setting() -> None:
    with pytest.raises(ForeignRequest, match=r"'evil\.example'") as found:
        LOOPBACK.check("GET", {"Host": "evil.example"})
    assert "--allowed-hosts" in found.value.hint


def test_loopback_is_this_machine() -> None:
    hosts = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "10.0.0.1", "shop")
    assert [is_loopback(host) for host in hosts] == [True, True, True, False, False, False, False]


@pytest.mark.parametrize("wrong", ["", "shop:8080", "http://shop", "a b/c", "shop/path"])
def test_an_allowed_host_is_a_name(wrong: str) -> None:
    assert parse_host_name("Shop.example.com") == "shop.example.com"
    with pytest.raises(ValueError, match="not the name of a host"):
        parse_host_name(wrong)
