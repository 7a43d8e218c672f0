"""Keep the webhook's certificate valid: self-signed in a Secret, or mounted.

Any number of replicas share one Secret. Each replica reads it, computes the certificates that should be
there (`certificates.renew_keyring`), and writes only over the version that it read; after a conflict it
reads the Secret again. So the replicas agree without communicating, and a replica that was away for a month
takes over the others' certificates.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import structlog

from sidelight.server_tls import BadCertificate, CertificateFiles, TlsContext
from sidelight_injector.certificates import certificates
from sidelight_injector.certificates.certificates import CertificatePolicy, Keyring
from sidelight_injector.health import InjectorHealth
from sidelight_injector.metrics import Metrics
from sidelight_kubernetes.api_paths import build_path
from sidelight_kubernetes.kubernetes_client import AccessDenied, Conflict, KubernetesClient, NotFoundInCluster
from sidelight_model.errors import SidelightError

CERTIFICATE: Final = "certificate"
TRUST: Final = "trust"
_ATTEMPTS: Final = 5
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


class CertificateSource(Protocol):
    """Loads the certificate and renews it in time.

    `refresh` blocks. It reports problems to the InjectorHealth and raises no expected error.
    """

    def refresh(self) -> None: ...


class CertificateObjects(NamedTuple):
    """Names of the objects that hold the certificate and its CA."""

    namespace: str
    secret: str
    webhook: str


class SelfSignedCertificate:
    """A self-signed certificate in a Secret, with its CA in the webhook's `caBundle`."""

    def __init__(
        self,
        cluster: KubernetesClient,
        tls: TlsContext,
        health: InjectorHealth,
        metrics: Metrics,
        policy: CertificatePolicy,
        clock: Callable[[], datetime.datetime],
        objects: CertificateObjects,
    ) -> None:
        self._cluster = cluster
        self._tls = tls
        self._health = health
        self._metrics = metrics
        self._policy = policy
        self._clock = clock
        self._namespace = objects.namespace
        self._secret_name = objects.secret
        self._webhook_path = build_path(
            "mutatingwebhookconfigurations", group="admissionregistration.k8s.io", name=objects.webhook
        )
        self._webhook_name = objects.webhook
        self._has_written_trust = False

    def refresh(self) -> None:
        trusted = ""
        try:
            trusted = self._read_ca_bundle()
        except SidelightError as error:
            self._report_trust_error(error)
        try:
            keyring = self._renew_keyring(trusted)
            self._tls.set_certificate(keyring.leaf.certificate, keyring.leaf.key)
            self._health.clear(CERTIFICATE)
        except SidelightError as error:
            self._health.report(CERTIFICATE, error, blocking=not self._tls.has_certificate)
            return
        try:
            self._write_ca_bundle(keyring)
            self._has_written_trust = True
            self._health.clear(TRUST)
        except SidelightError as error:
            self._report_trust_error(error)

    def _renew_keyring(self, ca_bundle: str) -> Keyring:
        """Return the shared keyring after renewal; write it if it changed."""
        for _ in range(_ATTEMPTS):
            secret, stored = self._read_secret()
            renewed = certificates.renew_keyring(stored, self._clock(), self._policy, ca_bundle=ca_bundle)
            if renewed == stored:
                return renewed
            try:
                self._write_secret(secret, renewed)
            except Conflict:
                continue  # another replica wrote first, and its keyring counts
            self._record_renewal(stored, renewed)
            return renewed
        raise Conflict(
            f"the Secret {self._secret_name!r} was changed by others each time it was to be written",
            hint="Nothing but this program should write it: see who else does.",
        )

    def _read_secret(self) -> tuple[dict[str, Any] | None, Keyring | None]:
        path = build_path("secrets", namespace=self._namespace, name=self._secret_name)
        try:
            secret = self._cluster.get(path)
        except NotFoundInCluster:
            return None, None
        try:
            texts = {name: base64.b64decode(text).decode() for name, text in _secret_data(secret).items()}
            return secret, certificates.decode_keyring(texts)
        except (ValueError, binascii.Error) as error:
            _log.warning(
                "the certificates in the secret cannot be used and are created again",
                secret=self._secret_name,
                problem=str(error),
            )
            return secret, None

    def _write_secret(self, secret: dict[str, Any] | None, keyring: Keyring) -> None:
        path = build_path("secrets", namespace=self._namespace)
        texts = certificates.encode_keyring(keyring)
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        if secret is None and not self._create_secret(path, data):
            raise NotFoundInCluster(
                f"the Secret {self._secret_name!r} does not exist, and may not be made",
                hint="The chart makes it, empty: run helm upgrade. Or is it another --certificate-secret?",
            )
        if secret is not None:
            # It carries the resourceVersion that was read, so that a concurrent change is a Conflict.
            self._cluster.replace(
                build_path("secrets", namespace=self._namespace, name=self._secret_name),
                {**secret, "data": data},
            )

    def _create_secret(self, path: str, data: Mapping[str, str]) -> bool:
        """Create the Secret and return True, or return False without permission.

        The chart's RBAC rules do not grant it.
        """
        metadata = {"name": self._secret_name, "namespace": self._namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        try:
            self._cluster.create(path, body)
        except AccessDenied:
            return False
        return True

    def _read_ca_bundle(self) -> str:
        """Return the PEM bundle that API servers trust, or "" if there is none in common.

        All entries of the webhook must have the same `caBundle`.
        """
        entries = self._cluster.get(self._webhook_path).get("webhooks") or []
        bundles = {str((entry.get("clientConfig") or {}).get("caBundle") or "") for entry in entries}
        if len(bundles) != 1:
            return ""
        try:
            return base64.b64decode(bundles.pop()).decode()
        except (ValueError, binascii.Error):
            return ""

    def _write_ca_bundle(self, keyring: Keyring) -> None:
        """Write the keyring's authorities into the webhook's entries that lack them."""
        ca_bundle = base64.b64encode(keyring.ca_bundle.encode()).decode()
        config = self._cluster.get(self._webhook_path)
        entries = config.get("webhooks") or []
        stale = [
            index
            for index, entry in enumerate(entries)
            if (entry.get("clientConfig") or {}).get("caBundle") != ca_bundle
        ]
        if not stale:
            return
        changes = [{"op": "test", "path": "/metadata/resourceVersion", "value": _resource_version(config)}]
        changes += [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": ca_bundle}
            for index in stale
        ]
        try:
            self._cluster.patch(self._webhook_path, changes, "json")
        except SidelightError:
            if _resource_version(self._cluster.get(self._webhook_path)) == _resource_version(config):
                raise
            return  # another client changed it in between; the next refresh updates the rest
        self._metrics.ca_bundle_updates.inc()
        _log.info("the webhook has the new CA bundle", webhook=self._webhook_name, entries=len(stale))

    def _report_trust_error(self, error: SidelightError) -> None:
        """Report that the `caBundle` cannot be updated.

        It blocks readiness only until the first update succeeds: API servers that trusted the authorities
        once go on trusting them.
        """
        trust_error = SidelightError(
            f"the MutatingWebhookConfiguration {self._webhook_name!r} cannot get the new CA bundle: "
            f"{error.message}",
            reason=error.reason,
            hint=error.hint or "Install the chart's, or name yours with --webhook-name.",
        )
        self._health.report(TRUST, trust_error, blocking=not self._has_written_trust)

    def _record_renewal(self, old_keyring: Keyring | None, new_keyring: Keyring) -> None:
        is_new = {
            "leaf": old_keyring is None or old_keyring.leaf != new_keyring.leaf,
            "ca": old_keyring is None
            or (new_keyring.next is not None and new_keyring.next != old_keyring.next),
        }
        for kind in (kind for kind, changed in is_new.items() if changed):
            self._metrics.certificates_issued.labels(kind).inc()
            _log.info("a certificate was made", kind=kind, leaf_ends=new_keyring.leaf.expires_at.isoformat())


class MountedCertificate:
    """A certificate mounted as files that somebody else, like cert-manager, renews."""

    def __init__(
        self, folder: Path, tls: TlsContext, health: InjectorHealth, clock: Callable[[], datetime.datetime]
    ) -> None:
        self._files = CertificateFiles(folder / "tls.crt", folder / "tls.key")
        self._tls = tls
        self._health = health
        self._clock = clock

    def refresh(self) -> None:
        try:
            if self._tls.set_certificate(*self._files.read(self._clock())):
                _log.info("a certificate was taken into use", file=str(self._files.certificate))
            self._health.clear(CERTIFICATE)
        except BadCertificate as error:
            self._health.report(
                CERTIFICATE,
                BadCertificate(
                    error.message,
                    hint="cert-manager writes it: look at the Certificate of the injector and its events.",
                ),
                blocking=not self._tls.has_certificate,
            )


def _secret_data(secret: Mapping[str, Any]) -> Mapping[str, str]:
    return secret.get("data") or {}


def _resource_version(kubernetes_object: Mapping[str, Any]) -> str:
    return str(kubernetes_object["metadata"]["resourceVersion"])
