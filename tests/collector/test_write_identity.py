"""What a pod may say of itself, and which tokens are worth a review; without a cluster."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.auth.token_review import LEEWAY_SECONDS, add_pod_labels, check_claims, decode_claims
from sidelight_collector.auth.write_identity import LabelMismatch, TokenRejected, WriterIdentity
from sidelight_collector.captures.capture_requests import NAME_PATTERN
from sidelight_model.errors import BadLabel, Reason
from sidelight_model.labels import Labels

WRITER = WriterIdentity("prod", "shop-1", "uid-1", "node-1", "shop", "7")
NOW = 1_795_253_400.0


def token(**claims: object) -> str:
    """A token with these claims, which nobody signed."""
    whole = {"aud": ["sidelight"], "sub": "system:serviceaccount:prod:shop", "exp": NOW + 600, **claims}
    body = base64.urlsafe_b64encode(json.dumps(whole).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


def test_what_is_left_out_is_filled_in_and_what_is_free_stays() -> None:
    assert WRITER.bind_labels({}) == Labels(
        {"namespace": "prod", "pod": "shop-1", "node": "node-1", "service": "shop", "version": "7"}
    )
    said = {"service": "shop", "version": "8", "node": "n", "container": "web", "team": "a", "pod": ""}
    assert WRITER.bind_labels(said) == Labels({**said, "namespace": "prod", "pod": "shop-1"})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("namespace", Reason.WRONG_NAMESPACE),
        ("pod", Reason.WRONG_POD),
        ("service", Reason.WRONG_SERVICE),
    ],
)
def test_what_is_said_otherwise_is_refused_with_a_word_of_its_own(name: str, reason: Reason) -> None:
    with pytest.raises(LabelMismatch) as told:
        WRITER.bind_labels({name: "other"})
    assert told.value.reason is reason
    assert told.value.hint
    assert "prod/shop-1" in told.value.message


def test_without_the_pods_names_the_service_is_what_is_said() -> None:
    unnamed = WriterIdentity("prod", "shop-1", "uid-1")
    assert unnamed.bind_labels({"service": "x"})["service"] == "x"
    with pytest.raises(BadLabel):
        unnamed.bind_labels({})


VALUES = st.sampled_from(["", "prod", "shop-1", "shop", "other", "7"])


@given(st.dictionaries(st.sampled_from(["namespace", "pod", "service", "version", "team"]), VALUES))
def test_nothing_that_is_bound_is_another_pods(said: dict[str, str]) -> None:
    try:
        bound = WRITER.bind_labels(said)
    except LabelMismatch:
        assert any(
            said.get(name, "") not in ("", WRITER.bind_labels({})[name]) for name in said if name != "team"
        )
        return
    assert (bound["namespace"], bound["pod"], bound["service"]) == ("prod", "shop-1", "shop")
    assert WRITER.bind_labels(bound) == bound


@given(name=st.from_regex(NAME_PATTERN, fullmatch=True))
def test_sidecars_of_two_pods_never_have_one_name(name: str) -> None:
    other = WriterIdentity("prod", "shop-2", "uid-2")
    assert WRITER.qualify_agent_name(name) != other.qualify_agent_name(name)
    assert WRITER.qualify_agent_name(name) not in (
        other.qualify_agent_name(WRITER.qualify_agent_name(name)),
        name,
    )
    assert NAME_PATTERN.fullmatch(WRITER.qualify_agent_name(name))


def test_a_pod_is_named_and_a_later_one_of_the_same_name_is_not_it() -> None:
    pod = {"metadata": {"uid": "uid-1", "labels": {"app": "web"}}, "spec": {"nodeName": "n9"}}
    assert add_pod_labels(WriterIdentity("a", "b", "uid-1"), pod) == WriterIdentity(
        "a", "b", "uid-1", "n9", "web", ""
    )
    with pytest.raises(TokenRejected, match="gone"):
        add_pod_labels(WriterIdentity("a", "b", "uid-2"), pod)


@pytest.mark.parametrize(
    ("given_token", "said"),
    [
        ("", "neither"),
        ("plain", "neither"),
        ("a.b.c", "neither"),
        (token(sub="alice"), "neither"),
        (token(exp="soon"), "neither"),
        (token(exp=None), "neither"),
        (token(aud="vault"), "not meant for"),
        (token(aud=None), "not meant for"),
        (token(exp=NOW - LEEWAY_SECONDS), "expired"),
        (token() + "é", "neither"),
        (token() + "\udcff", "neither"),
    ],
)
def test_what_cannot_be_a_pods_token_for_us_costs_no_review(given_token: str, said: str) -> None:
    with pytest.raises(TokenRejected, match=said) as told:
        check_claims(given_token, "sidelight", NOW)
    assert told.value.hint


def test_a_token_may_expire_a_little_ago_as_clocks_differ() -> None:
    assert check_claims(token(aud="sidelight"), "sidelight", NOW) == NOW + 600 + LEEWAY_SECONDS
    assert check_claims(token(exp=NOW - LEEWAY_SECONDS + 1), "sidelight", NOW) == NOW + 1


@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda raw: f"x.{base64.b64encode(raw).decode()}.y"))
def test_any_text_can_be_looked_at(text: str) -> None:
    assert isinstance(decode_claims(text), dict)
    with pytest.raises(TokenRejected):
        check_claims(text, "sidelight", NOW)
