"""Rules for the namespaces that a user may read. Pure.

The rules are in a file:

    # who = namespaces
    group:sre = *
    user:alice@example.com = shop, shop-*
    token:grafana = shop
    anyone = public, (none)

A user may read the namespaces of all rules that apply. `(none)` stands for windows without a namespace, `*`
for everything. A user with access to whom no rule applies may read nothing. Without a file, every user with
access may read everything.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from multidict import MultiMapping

from sidelight.settings import BadSetting
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.regular_expressions.pattern import compile_pattern
from sidelight_model.selectors import Matcher, Op, Selector

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ALL_NAMESPACES: Final = "*"
NO_NAMESPACE: Final = "(none)"
ANYONE: Final = "anyone"
SUBJECT_KINDS: Final = ("user", "group", "token")
MAX_NAME_CHARACTERS: Final = 256
MAX_GROUPS: Final = 1000
_NAMESPACE_PATTERN: Final = re.compile(r"\*|\(none\)|[A-Za-z0-9_.*-]*[A-Za-z0-9_.-][A-Za-z0-9_.*-]*")


class NoNamespaces(SidelightError):
    """The user has access, but may read no namespace."""

    reason = Reason.NO_NAMESPACES

    def __init__(self, who: str) -> None:
        super().__init__(
            f"{who} may read no namespace here",
            hint="Ask the collector's operator for a line in its --read-rules-file that names you, or one "
            "of your groups.",
        )


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, and patterns of the namespaces that the user may read.

    name: empty for an anonymous user or a token without a name.
    namespaces: None if the user may read everything.
    """

    name: str = ""
    namespaces: tuple[str, ...] | None = None

    @property
    def selector(self) -> Selector:
        """The selector to add to every query of this user."""
        if self.namespaces is None:
            return Selector()
        return Selector((Matcher("namespace", Op.MATCHES, "|".join(map(_to_regex, self.namespaces))),))

    def can_read(self, labels: Mapping[str, str]) -> bool:
        """Whether this user may read data with these labels."""
        if self.namespaces is None:
            return True
        namespace = labels.get("namespace", "")
        return any(_matches(namespace, pattern) for pattern in self.namespaces)


@dataclass(frozen=True, slots=True)
class ReadRule:
    """A rule: a subject, and patterns of the namespaces that it may read.

    The subject is a kind and a name, or `anyone` with an empty name.
    """

    kind: str
    name: str
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy that authenticates users: the names of its headers, and its networks.

    Only proxies may have addresses in these networks.
    """

    user_header: str = ""
    groups_header: str = ""
    networks: tuple[Network, ...] = ()
    capture_groups: tuple[str, ...] = ()
    """Groups whose users may start captures and write notes; empty: all users may."""

    def is_trusted(self, address: str) -> bool:
        """Whether a request from this address comes from the proxy."""
        try:
            peer = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = peer.ipv4_mapped if isinstance(peer, ipaddress.IPv6Address) else None
        return any((mapped or peer) in network for network in self.networks)

    def check_capture(self, user: str, groups: Collection[str]) -> None:
        """Raise SidelightError if this user may not start captures and write notes."""
        if self.capture_groups and set(self.capture_groups).isdisjoint(groups):
            raise SidelightError(
                f"{user} may not start captures or write notes here",
                reason=Reason.FORBIDDEN,
                hint="Ask the collector's operator for one of the groups in --capture-groups.",
            )


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """The rules for all users; None: every user with access may read everything."""

    proxy: TrustedProxy = field(default_factory=TrustedProxy)
    rules: tuple[ReadRule, ...] | None = None

    def parse_proxy_headers(
        self, address: str, headers: MultiMapping[str]
    ) -> tuple[str, tuple[str, ...]] | None:
        """Return the user and groups that a trusted proxy names; None without them.

        A repeated user header counts as missing, because the client may have sent one of them.
        """
        users = headers.getall(self.proxy.user_header, []) if self.proxy.user_header else []
        if len(users) != 1 or not (user := _parse_name(users[0])) or not self.proxy.is_trusted(address):
            return None
        groups = ",".join(headers.getall(self.proxy.groups_header, [])) if self.proxy.groups_header else ""
        return user, tuple(filter(None, map(_parse_name, groups.split(",")[:MAX_GROUPS])))

    def principal_from_proxy(self, name: str, groups: Collection[str]) -> Principal:
        """Return the principal of a user that a proxy authenticated. Raises NoNamespaces."""
        return self._build_principal(name, {("user", name), *(("group", group) for group in groups)}, name)

    def principal_from_token(self, name: str) -> Principal:
        """Return the principal of a token, or of an anonymous user. Raises NoNamespaces.

        `name` is empty for a token without a name, and for an anonymous user.
        """
        return self._build_principal(name, {("token", name)} if name else set(), name or "this reader")

    def _build_principal(
        self, name: str, subjects: Collection[tuple[str, str]], description: str
    ) -> Principal:
        if self.rules is None:
            return Principal(name)
        rules = [rule for rule in self.rules if rule.kind == ANYONE or (rule.kind, rule.name) in subjects]
        patterns = dict.fromkeys(pattern for rule in rules for pattern in rule.namespaces)
        if not patterns:
            raise NoNamespaces(description)
        return Principal(name, None if ALL_NAMESPACES in patterns else tuple(sorted(patterns)))


def parse_network(text: str) -> Network:
    """Parse an address or a network: 10.0.0.0/8, ::1. Raises ValueError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network such as 10.0.0.0/8: {error}") from None


def parse_header_name(text: str) -> str:
    """Parse the name of a header. Raises ValueError."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*", text):
        raise ValueError(f"{text!r} is not the name of a header such as X-Forwarded-User")
    return text


def load_read_rules(path: Path | None) -> tuple[ReadRule, ...] | None:
    """Load the rules of a file. Raises BadSetting with the invalid line."""
    if path is None:
        return None
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"cannot read the rules in {path}: {error}", hint="Check --read-rules-file."
        ) from error
    rules = tuple(_parse_rules(path, lines))
    if not rules:
        raise BadSetting(f"there is no rule in {path}", hint="Write `anyone = *` to let everybody see all.")
    return rules


def _parse_rules(path: Path, lines: Sequence[str]) -> Iterable[ReadRule]:
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        # Split at the last `=`, because the name of a group may contain one: `cn=sre`.
        subject, equals, namespaces = line.rpartition("=")
        kind, colon, name = subject.strip().partition(":")
        patterns = tuple(filter(None, map(str.strip, namespaces.split(","))))
        is_subject = (kind == ANYONE and not colon) or (kind in SUBJECT_KINDS and name.strip())
        if not (equals and is_subject and patterns and all(map(_NAMESPACE_PATTERN.fullmatch, patterns))):
            raise BadSetting(
                f"{path}, line {number}: {line[:80]!r} is not a rule",
                hint="A rule is `user:NAME = NAMESPACE, NAMESPACE`, or group:NAME, token:NAME or anyone; a "
                "namespace may have *, and (none) is what has none.",
            )
        yield ReadRule(kind, name.strip(), patterns)


def _parse_name(text: str) -> str:
    """Parse a name from a header; empty if it is too long or not printable."""
    text = text.strip()
    return text if len(text) <= MAX_NAME_CHARACTERS and text.isprintable() else ""


def _to_regex(pattern: str) -> str:
    if pattern == NO_NAMESPACE:
        return ""
    return "".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", pattern))


def _matches(namespace: str, pattern: str) -> bool:
    if pattern == NO_NAMESPACE:
        return not namespace
    return bool(namespace) and compile_pattern(_to_regex(pattern)).fullmatch(namespace)
