"""Who reads and what they may see: rules, proxies and tokens, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from sidelight.settings import BadSetting
from sidelight_collector.auth.authorizer import Authorizer, BearerTokens, Permission, read_named_tokens
from sidelight_collector.auth.read_rules import (
    NoNamespaces,
    Principal,
    ReadPolicy,
    ReadRule,
    TrustedProxy,
    load_read_rules,
    parse_header_name,
    parse_network,
)
from sidelight_collector.auth_wiring import load_read_policy, load_tokens
from sidelight_collector.query.select.matchers import is_full_match, parse_re2_selector
from sidelight_collector.settings.collector import Settings

RULES = """
# who = namespaces
group:sre = *
group:cn=shop team = shop, shop-*
user:alice@example.com = web
token:grafana = public
anyone = status, (none)
"""


@pytest.fixture
def readers(tmp_path: Path) -> ReadPolicy:
    (tmp_path / "rules").write_text(RULES)
    networks = (parse_network("10.0.0.0/8"), parse_network("::1"))
    proxy = TrustedProxy("X-Forwarded-User", "X-Forwarded-Groups", networks)
    return ReadPolicy(proxy, load_read_rules(tmp_path / "rules"))


def test_a_reader_sees_what_any_of_its_rules_names(readers: ReadPolicy) -> None:
    assert readers.principal_from_proxy("root", ["sre"]) == Principal("root", None)
    assert readers.principal_from_proxy("alice@example.com", ["cn=shop team"]).namespaces == (
        *("(none)", "shop"),
        *("shop-*", "status", "web"),
    )
    assert readers.principal_from_proxy("mallory", ["shop"]).namespaces == ("(none)", "status")
    assert readers.principal_from_token("grafana") == Principal("grafana", ("(none)", "public", "status"))
    assert readers.principal_from_token("").namespaces == ("(none)", "status")


def test_a_user_is_no_group_and_no_token_of_the_same_name(readers: ReadPolicy) -> None:
    for reader in (
        readers.principal_from_proxy("sre", ["alice@example.com"]),
        readers.principal_from_token("sre"),
    ):
        assert reader.namespaces == ("(none)", "status")


def test_who_is_named_by_no_rule_sees_nothing() -> None:
    readers = ReadPolicy(rules=(ReadRule("user", "alice", ("shop",)),))
    with pytest.raises(NoNamespaces) as told:
        readers.principal_from_proxy("bob", [])
    assert "bob" in told.value.message
    with pytest.raises(NoNamespaces):
        readers.principal_from_token("")


def test_without_rules_everybody_who_is_let_in_sees_all() -> None:
    assert ReadPolicy().principal_from_proxy("alice", []) == Principal("alice", None)
    assert str(Principal().selector) == "{}"


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,12}[a-z0-9])?", fullmatch=True)
PATTERNS = st.sampled_from(["(none)", "a*", "*-dev", "a.b", "team-*-x", "x"]) | NAMES


@given(patterns=st.lists(PATTERNS, min_size=1, max_size=4), namespace=st.just("") | NAMES)
def test_what_is_selected_is_what_is_seen(patterns: list[str], namespace: str) -> None:
    reader = Principal("x", tuple(patterns))
    selector = parse_re2_selector(str(reader.selector))
    assert selector == reader.selector
    assert selector.matches({"namespace": namespace}, is_full_match) is reader.can_read(
        {"namespace": namespace}
    )


@pytest.mark.parametrize(
    "line",
    [
        *("alice = shop", "user: = shop", "user:alice", "user:alice =", "user:alice = sh op"),
        *("user:alice = shop[ab]", "anyone:x = shop", "robot:x = shop", "group:x = **", "user:a = ,"),
    ],
)
def test_a_line_that_is_no_rule_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "rules").write_text(f"anyone = x\n{line}\n")
    with pytest.raises(BadSetting, match="line 2"):
        load_read_rules(tmp_path / "rules")


def test_a_file_without_rules_is_refused_rather_than_letting_all_see_nothing(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("# later\n")
    with pytest.raises(BadSetting):
        load_read_rules(tmp_path / "rules")
    with pytest.raises(BadSetting):
        load_read_rules(tmp_path / "gone")


HEADERS = {"x-forwarded-user": "alice", "x-forwarded-groups": "sre, web ,,"}


@pytest.mark.parametrize(
    ("address", "trusted"),
    [
        *(("10.1.2.3", True), ("::1", True), ("::ffff:10.0.0.1", True), ("fe80::1%eth0", False)),
        *(("192.168.1.1", False), ("::2", False), ("", False), ("not an address", False)),
    ],
)
def test_headers_count_only_from_proxies_that_are_trusted(
    address: str, trusted: bool, readers: ReadPolicy
) -> None:
    assert readers.parse_proxy_headers(address, CIMultiDict(HEADERS)) == (
        ("alice", ("sre", "web")) if trusted else None
    )


@pytest.mark.parametrize(
    "headers",
    [
        CIMultiDict({"X-Forwarded-Groups": "sre"}),
        CIMultiDict({"X-Forwarded-User": "  "}),
        CIMultiDict({"X-Forwarded-User": "a\x00b"}),
        CIMultiDict({"X-Forwarded-User": "a" * 257}),
        CIMultiDict([("X-Forwarded-User", "alice"), ("X-Forwarded-User", "root")]),
    ],
)
def test_a_user_that_is_not_told_once_and_plainly_is_nobody(
    headers: CIMultiDict[str], readers: ReadPolicy
) -> None:
    assert readers.parse_proxy_headers("10.0.0.1", headers) is None


def test_without_a_groups_header_nobody_is_of_a_group() -> None:
    readers = ReadPolicy(TrustedProxy("X-User", "", (parse_network("10.0.0.1"),)))
    assert readers.parse_proxy_headers("10.0.0.1", CIMultiDict({"X-User": "a", "": "sre"})) == ("a", ())


def test_tokens_have_names_where_lines_give_them(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("# of people\ngrafana s3cret\n  plain\n")
    assert read_named_tokens(tmp_path / "tokens") == {"s3cret": "grafana", "plain": ""}
    (tmp_path / "tokens").write_text("one two three\n")
    with pytest.raises(BadSetting, match="3 words"):
        read_named_tokens(tmp_path / "tokens")


def test_a_token_that_is_known_is_named_and_others_are_not() -> None:
    tokens = BearerTokens(read=("s3cret", "plain"), token_names={"s3cret": "grafana"})
    assert tokens.find_token(Permission.READ, "Bearer s3cret") == "s3cret"
    for other in ("", "Bearer", "Bearer ", "Basic s3cret", "Bearer s3cre", "Bearer s3cret x"):
        assert tokens.find_token(Permission.READ, other) is None


def test_headers_and_networks_are_read_or_refused() -> None:
    assert parse_header_name("X-Forwarded-User") == "X-Forwarded-User"
    assert str(parse_network("10.0.0.1")) == "10.0.0.1/32"
    for bad in ("", "X User", "X:Y", "-x", "X-Üser"):
        with pytest.raises(ValueError, match="header"):
            parse_header_name(bad)
    for bad in ("", "10.0.0.1/8", "host", "300.1.1.1"):
        with pytest.raises(ValueError, match="network"):
            parse_network(bad)


@pytest.mark.parametrize(
    "given",
    [
        {"read_proxy_header": "X-User"},
        {"trusted_proxies": (parse_network("10.0.0.0/8"),)},
        {"read_proxy_groups_header": "X-Groups"},
    ],
)
def test_a_proxy_is_set_whole_or_not_at_all(given: dict[str, object]) -> None:
    with pytest.raises(BadSetting):
        Settings(store="given", **given)  # type: ignore[arg-type]


def test_a_proxy_is_the_only_way_in_unless_there_are_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("grafana s3cret\n")
    proxied = Settings(
        store="given", read_proxy_header="X-User", trusted_proxies=(parse_network("10.0.0.0/8"),)
    )
    assert load_tokens(proxied).read == ()
    assert load_read_policy(proxied).proxy == TrustedProxy("X-User", "", (parse_network("10.0.0.0/8"),))
    both = Settings(
        store="given",
        read_proxy_header="X-User",
        trusted_proxies=(parse_network("10.0.0.0/8"),),
        read_tokens_file=tmp_path / "tokens",
    )
    assert load_tokens(both).read == ("s3cret",)
    assert load_tokens(both).token_names == {"s3cret": "grafana"}


def test_a_cluster_takes_the_place_of_tokens_of_writers() -> None:
    everywhere = Settings(
        store="given", listen="0.0.0.0:80", kubernetes="in-cluster", allow_anonymous_reads=True
    )
    assert load_tokens(everywhere).write == ()
    assert load_tokens(Settings(store="given", kubernetes="in-cluster")).write == ()
    assert load_tokens(Settings(store="given")).write is None
    anonymous = Settings(store="given", kubernetes="in-cluster", allow_anonymous_writes=True)
    assert load_tokens(anonymous).write is None
    with pytest.raises(BadSetting):
        Settings(store="given", listen="0.0.0.0:80")


def test_a_guard_without_settings_lets_everybody_in() -> None:
    assert Authorizer().tokens.is_allowed(Permission.WRITE, "")
