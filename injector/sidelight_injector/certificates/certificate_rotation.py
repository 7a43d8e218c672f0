"""Keeps the webhook's certificate: one made here, shared in a Secret, or one that somebody else mounts.

Any number of replicas keep the same Secret. Each reads it, works out what it should be (`certificates`
decides) and writes it only over what it has read; who comes second reads it again. So they agree without
knowing of each other, and a replica that was away for a month picks up what the others have done.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from sidelight_injector.certificates import certificates
from sidelight_injector.certificates.certificates import Keyring, Plan
from sidelight_injector.certificates.tls import BadCertificate, Tls
from sidelight_injector.health import Board
from sidelight_injector.metrics import Metrics
from sidelight_kubernetes.kubernetes_client import Cluster, Conflict, Denied, NotFoundInCluster
from sidelight_model.errors import SidelightError

CERTIFICATE: Final = "certificate"
TRUST: Final = "trust"
_TRIES: Final = 5
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


class Keeper(Protocol):
    """Sees to the certificate. `look` blocks, tells the board what is wrong, and raises nothing expected."""

    def look(self) -> None: ...


class Made:
    """A certificate made here: in a Secret of this namespace, its authority told to the webhook."""

    def __init__(
        self,
        cluster: Cluster,
        tls: Tls,
        board: Board,
        metrics: Metrics,
        plan: Plan,
        now: Callable[[], datetime.datetime],
        *,
        namespace: str,
        secret: str,
        webhook: str,
    ) -> None:
        self._cluster = cluster
        self._tls = tls
        self._board = board
        self._metrics = metrics
        self._plan = plan
        self._now = now
        self._namespace = namespace
        self._secret = secret
        self._webhook = f"{_WEBHOOKS}/{webhook}"
        self._name = webhook
        self._told = False

    def look(self) -> None:
        trusted = ""
        try:
            trusted = self._trusted()
        except SidelightError as error:
            self._distrusted(error)
        try:
            keyring = self._keyring(trusted)
            self._tls.use(keyring.leaf.certificate, keyring.leaf.key)
            self._board.well(CERTIFICATE)
        except SidelightError as error:
            self._board.wrong(CERTIFICATE, error, blocking=not self._tls.ready)
            return
        try:
            self._tell(keyring)
            self._told = True
            self._board.well(TRUST)
        except SidelightError as error:
            self._distrusted(error)

    def _keyring(self, trusted: str) -> Keyring:
        """The shared keyring as it should be now, written where it was not so."""
        for _ in range(_TRIES):
            secret, before = self._read()
            after = certificates.renewed(before, self._now(), self._plan, trusted=trusted)
            if after == before:
                return after
            try:
                self._write(secret, after)
            except Conflict:
                continue  # another replica was first: what it has written counts
            self._note(before, after)
            return after
        raise Conflict(
            f"the Secret {self._secret!r} was changed by others each time it was to be written",
            hint="Nothing but this program should write it: see who else does.",
        )

    def _read(self) -> tuple[dict[str, Any] | None, Keyring | None]:
        path = f"/api/v1/namespaces/{self._namespace}/secrets/{self._secret}"
        try:
            secret = self._cluster.get(path)
        except NotFoundInCluster:
            return None, None
        try:
            texts = {name: base64.b64decode(text).decode() for name, text in _data(secret).items()}
            return secret, certificates.read(texts)
        except (ValueError, binascii.Error) as error:
            _log.warning(
                "the certificates in the secret cannot be used and are made anew",
                secret=self._secret,
                problem=str(error),
            )
            return secret, None

    def _write(self, secret: dict[str, Any] | None, keyring: Keyring) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/secrets"
        texts = certificates.written(keyring)
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        if secret is None and not self._made(path, data):
            raise NotFoundInCluster(
                f"the Secret {self._secret!r} does not exist, and may not be made",
                hint="The chart makes it, empty: run helm upgrade. Or is it another --certificate-secret?",
            )
        if secret is not None:
            # It carries the resourceVersion that was read: a Conflict when that is no longer so.
            self._cluster.replace(f"{path}/{self._secret}", {**secret, "data": data})

    def _made(self, path: str, data: Mapping[str, str]) -> bool:
        """Make the Secret, where that is allowed: the chart's rules do not."""
        metadata = {"name": self._secret, "namespace": self._namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        try:
            self._cluster.create(path, body)
        except Denied:
            return False
        return True

    def _trusted(self) -> str:
        """What API servers are told to trust: what all entries of the webhook have in common, as PEM."""
        entries = self._cluster.get(self._webhook).get("webhooks") or []
        bundles = {str((entry.get("clientConfig") or {}).get("caBundle") or "") for entry in entries}
        if len(bundles) != 1:
            return ""
        try:
            return base64.b64decode(bundles.pop()).decode()
        except (ValueError, binascii.Error):
            return ""

    def _tell(self, keyring: Keyring) -> None:
        """Put the authorities into every entry of the webhook, where they are not in there."""
        wanted = base64.b64encode(keyring.trusted.encode()).decode()
        config = self._cluster.get(self._webhook)
        entries = config.get("webhooks") or []
        stale = [
            place
            for place, entry in enumerate(entries)
            if (entry.get("clientConfig") or {}).get("caBundle") != wanted
        ]
        if not stale:
            return
        changes = [{"op": "test", "path": "/metadata/resourceVersion", "value": _version(config)}]
        changes += [
            {"op": "add", "path": f"/webhooks/{place}/clientConfig/caBundle", "value": wanted}
            for place in stale
        ]
        try:
            self._cluster.patch(self._webhook, changes, "json")
        except SidelightError:
            if _version(self._cluster.get(self._webhook)) == _version(config):
                raise
            return  # somebody else changed it meanwhile; the next look sees to what is left
        self._metrics.ca_bundle_updates.inc()
        _log.info("the webhook was told whom to trust", webhook=self._name, entries=len(stale))

    def _distrusted(self, error: SidelightError) -> None:
        """API servers that trusted this once go on doing so: then it is a problem, and no reason to stop."""
        about = SidelightError(
            f"the MutatingWebhookConfiguration {self._name!r} cannot be told whom to trust: {error.message}",
            reason=error.reason,
            hint=error.hint or "Install the chart's, or name yours with --webhook-name.",
        )
        self._board.wrong(TRUST, about, blocking=not self._told)

    def _note(self, before: Keyring | None, after: Keyring) -> None:
        new = {
            "leaf": before is None or before.leaf != after.leaf,
            "ca": before is None or (after.next is not None and after.next != before.next),
        }
        for kind in (kind for kind, made in new.items() if made):
            self._metrics.certificates_issued.labels(kind).inc()
            _log.info("a certificate was made", kind=kind, leaf_ends=after.leaf.ends.isoformat())


class Mounted:
    """A certificate that is mounted as files, and changes there: cert-manager's."""

    def __init__(self, folder: Path, tls: Tls, board: Board) -> None:
        self._folder = folder
        self._tls = tls
        self._board = board

    def look(self) -> None:
        try:
            certificate, key = (self._folder / name for name in ("tls.crt", "tls.key"))
            if self._tls.use(certificate.read_text(), key.read_text()):
                _log.info("a certificate was taken into use", folder=str(self._folder))
            self._board.well(CERTIFICATE)
        except (OSError, ValueError) as error:
            self._board.wrong(
                CERTIFICATE,
                BadCertificate(
                    f"{self._folder} cannot be read: {error}",
                    hint="cert-manager writes it: look at the Certificate of the injector and its events.",
                ),
                blocking=not self._tls.ready,
            )
        except SidelightError as error:
            self._board.wrong(CERTIFICATE, error, blocking=not self._tls.ready)


def _data(secret: Mapping[str, Any]) -> Mapping[str, str]:
    return secret.get("data") or {}


def _version(thing: Mapping[str, Any]) -> str:
    return str(thing["metadata"]["resourceVersion"])
