"""Speaks to a Kubernetes API server: JSON in and out, every call bounded in time. Call it in threads.

`kubernetes` is imported when a client is opened and not before: it takes a second and 60 MB, which who runs
without Kubernetes does not pay.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sidelight.settings import BadSetting
from sidelight_kubernetes.label_names import IN_CLUSTER
from sidelight_model.errors import Reason, SidelightError

KubernetesObject = dict[str, Any]
"""An object of the API, as plain JSON."""

CONNECT_TIMEOUT_SECONDS: Final = 5.0
RESPONSE_TIMEOUT_SECONDS: Final = 10.0
PAGE_SIZE: Final = 500
WATCH_SLACK_SECONDS: Final = 10.0
"""A watch that the server should have ended by now, and did not, is given up."""
MAX_LINE_BYTES: Final = 32 << 20
_PATCH_CONTENT_TYPES: Final = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
}
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_EXTRA_PREFIX: Final = "authentication.kubernetes.io/"


class ClusterError(SidelightError):
    """The API server did not do what it was asked for."""


class ClusterUnavailable(ClusterError):
    """The API server cannot be reached, is too slow, or fails."""

    reason = Reason.CLUSTER_UNAVAILABLE


class AccessDenied(ClusterError):
    """This process may not do that: `verb` and `resource` as an RBAC rule names them."""

    reason = Reason.CLUSTER_DENIED

    def __init__(self, message: str, verb: str, resource: str) -> None:
        super().__init__(
            message,
            hint=f"Allow the service account of this process to {verb} {resource}: docs/kubernetes.md has "
            "the rules, and why each is there.",
        )
        self.verb = verb
        self.resource = resource


class NotFoundInCluster(ClusterError):
    """There is no such object."""

    reason = Reason.NOT_FOUND


class Conflict(ClusterError):
    """The object was changed since it was read, or exists already: read it anew."""

    reason = Reason.CONFLICT


class ResourceVersionExpired(ClusterError):
    """What a watch or a page was to go on from is no longer known: list again."""

    reason = Reason.CLUSTER_UNAVAILABLE


class InvalidRequest(ClusterError):
    """The API server does not accept the object or the question."""

    reason = Reason.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What a watch told: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    type: str
    object: KubernetesObject

    @property
    def version(self) -> str:
        """Where a later watch may go on from."""
        return str(self.object.get("metadata", {}).get("resourceVersion", ""))


@dataclass(frozen=True, slots=True)
class TokenReview:
    """Whose token it is; `error` says why it is not accepted. Pod and node: what it is bound to, or empty."""

    authenticated: bool
    username: str = ""
    namespace: str = ""
    service_account: str = ""
    pod: str = ""
    pod_uid: str = ""
    node: str = ""
    error: str = ""


class PagedItems(Iterator[KubernetesObject]):
    """The items of a list, fetched page by page; `version` is where a watch may begin once they are read."""

    def __init__(self, fetch: Callable[[str], KubernetesObject]) -> None:
        self._fetch = fetch
        self._items: Iterator[KubernetesObject] = iter(())
        self._continue_token: str | None = ""
        self.version = ""

    def __next__(self) -> KubernetesObject:
        while (item := next(self._items, None)) is None:
            if self._continue_token is None:
                raise StopIteration
            page = self._fetch(self._continue_token)
            metadata = page.get("metadata") or {}
            # All pages are of one moment: that of the first.
            self.version = self.version or str(metadata.get("resourceVersion", ""))
            self._continue_token = metadata.get("continue") or None
            self._items = iter(page.get("items") or ())
        return item


class KubernetesClient:
    """One API server; safe to use from several threads."""

    def __init__(self, api: Any, error_types: tuple[type[Exception], ...]) -> None:
        self._api = api
        self._error_types = error_types

    @classmethod
    def open(cls, source: str) -> KubernetesClient:
        """The cluster that this pod runs in (`in-cluster`), or that of a kubeconfig's current context.

        Nothing is asked yet. Raises BadSetting when there is nothing to open.
        """
        try:
            import kubernetes.client
            import kubernetes.config
            from kubernetes.client.exceptions import ApiException
        except ImportError as error:
            raise BadSetting(
                f"Kubernetes cannot be spoken to: {error}", hint="Install sidelight-kubernetes."
            ) from error
        settings = kubernetes.client.Configuration()
        settings.retries = 1
        try:
            if source == IN_CLUSTER:
                kubernetes.config.load_incluster_config(settings)
            else:
                kubernetes.config.load_kube_config(
                    source, client_configuration=settings, persist_config=False
                )
        except Exception as error:
            # The library lets through whatever reading and parsing raise.
            hint = (
                "In a pod: give it a service account and automountServiceAccountToken: true. "
                "Elsewhere give the path of a kubeconfig."
                if source == IN_CLUSTER
                else "Give the path of a kubeconfig that `kubectl --kubeconfig` can use."
            )
            raise BadSetting(f"no way to the cluster from {source}: {error}", hint=hint) from error
        return cls(kubernetes.client.ApiClient(settings), (ApiException, *_list_error_types()))

    @property
    def url(self) -> str:
        """Where the API server is."""
        return str(self._api.configuration.host)

    def close(self) -> None:
        """Let go of connections."""
        self._api.rest_client.pool_manager.clear()
        self._api.close()

    def get(self, path: str, /, **query: str) -> KubernetesObject:
        """The object, or the list, at a path such as `/api/v1/namespaces/x/pods/y`.

        Raises NotFoundInCluster, Denied and ClusterAway, as all that follow.
        """
        return self._request_json("GET", path, query)

    def create(self, path: str, body: Mapping[str, Any], /, **query: str) -> KubernetesObject:
        """Create an object below a path; what the server made of it. Raises Conflict when it exists."""
        return self._request_json("POST", path, query, body)

    def replace(self, path: str, body: Mapping[str, Any], /, **query: str) -> KubernetesObject:
        """Put an object in the place of the one with this path. Raises Conflict when that was changed."""
        return self._request_json("PUT", path, query, body)

    def patch(
        self,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        kind: Literal["strategic", "merge", "json"] = "strategic",
        /,
        **query: str,
    ) -> KubernetesObject:
        """Change parts of an object. Raises Conflict."""
        return self._request_json("PATCH", path, query, body, content_type=_PATCH_CONTENT_TYPES[kind])

    def delete(self, path: str, /, **query: str) -> KubernetesObject:
        """Delete an object; it may take its time to go."""
        return self._request_json("DELETE", path, query)

    def pages(self, path: str, /, **query: str) -> PagedItems:
        """The items of a list, page by page, all of one moment. Raises Expired when that took too long."""

        def fetch(continue_token: str) -> KubernetesObject:
            more = {"continue": continue_token} if continue_token else {}
            return self._request_json("GET", path, {"limit": str(PAGE_SIZE), **query, **more}, verb="list")

        return PagedItems(fetch)

    def watch(
        self, path: str, version: str, /, *, timeout_seconds: int, **query: str
    ) -> Iterator[WatchEvent]:
        """What happens to the objects of a list from `version` on, until the server ends it.

        Raises Expired when it no longer knows this version: list again. `.close()` ends it early.
        """
        wanted = {"watch": "true", "allowWatchBookmarks": "true", **query}
        wanted |= {"resourceVersion": version, "timeoutSeconds": str(timeout_seconds)}
        answer = self._send("GET", path, wanted, None, "", timeout_seconds + WATCH_SLACK_SECONDS, "watch")
        failures: tuple[type[Exception], ...] = (*self._error_types, ValueError, KeyError)
        try:
            for line in _read_lines(answer):
                told = json.loads(line)
                if told["type"] == "ERROR":
                    raise _to_cluster_error(
                        int(told["object"].get("code") or 500), told["object"], "watch", path
                    )
                yield WatchEvent(told["type"], told["object"])
        except failures as error:
            raise _unavailable_error(error) from error
        finally:
            answer.close()

    def review_token(self, token: str, audience: str) -> TokenReview:
        """Ask whose token it is; it counts only where the server says that it is meant for `audience`."""
        spec = {"token": token, "audiences": [audience]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = self.create("/apis/authentication.k8s.io/v1/tokenreviews", body).get("status") or {}
        error = str(status.get("error") or "")
        if not status.get("authenticated"):
            return TokenReview(False, error=error or "the API server does not know the token")
        if audience not in (status.get("audiences") or ()):
            # A server that knows nothing of audiences answers for any token of its own.
            return TokenReview(False, error=f"the token is not meant for {audience!r}")
        user = status.get("user") or {}
        username = str(user.get("username") or "")
        namespace, _, account = username.removeprefix(_SERVICE_ACCOUNT_PREFIX).partition(":")
        if not username.startswith(_SERVICE_ACCOUNT_PREFIX) or not account:
            return TokenReview(True, username)
        extra = user.get("extra") or {}

        def first(name: str) -> str:
            return str(next(iter(extra.get(_EXTRA_PREFIX + name) or ()), ""))

        return TokenReview(
            True, username, namespace, account, first("pod-name"), first("pod-uid"), first("node-name")
        )

    def is_allowed(
        self, verb: str, resource: str, namespace: str = "", group: str = "", subresource: str = ""
    ) -> bool:
        """Whether this process may do that, in one namespace or (empty) in all of them."""
        asked = {"verb": verb, "resource": resource, "namespace": namespace}
        asked |= {"group": group, "subresource": subresource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        answer = self.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return bool((answer.get("status") or {}).get("allowed"))

    def _request_json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: object = None,
        *,
        content_type: str = "application/json",
        verb: str = "",
    ) -> KubernetesObject:
        answer = self._send(
            method, path, query, body, content_type, RESPONSE_TIMEOUT_SECONDS, verb or _VERBS[method]
        )
        failures: tuple[type[Exception], ...] = (*self._error_types, ValueError)
        try:
            told = json.loads(answer.data)
        except failures as error:
            raise _unavailable_error(error) from error
        if not isinstance(told, dict):
            raise _unavailable_error(ValueError("its answer is no object"))
        return told

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: object,
        content_type: str,
        timeout_seconds: float,
        verb: str,
    ) -> Any:
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if content_type else {})
        try:
            return self._api.call_api(
                path,
                method,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=(CONNECT_TIMEOUT_SECONDS, timeout_seconds),
            )
        except self._error_types as error:
            status = getattr(error, "status", 0) or 0
            raise (
                _to_cluster_error(status, _parse_status(error), verb, path)
                if status
                else _unavailable_error(error)
            ) from error


def _list_error_types() -> tuple[type[Exception], ...]:
    """What a connection may raise; urllib3's own errors are OSErrors or HTTPErrors of its."""
    from kubernetes.client.rest import urllib3

    return (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, UnicodeDecodeError)


def _read_lines(answer: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(amt=None, decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError(f"an event of more than {MAX_LINE_BYTES} bytes")
        yield from filter(None, lines)


def _parse_status(error: Exception) -> Mapping[str, Any]:
    """The API server's own words on a failure."""
    try:
        told = json.loads(getattr(error, "body", "") or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _to_cluster_error(status: int, status_object: Mapping[str, Any], verb: str, path: str) -> ClusterError:
    message = str(status_object.get("message") or f"the API server answered {status} to {verb} {path}")[:500]
    if status == 401:
        return ClusterUnavailable(
            f"the API server does not know this process: {message}",
            hint="Its token has expired or its service account is gone; in a pod it is renewed by itself.",
        )
    if status == 403:
        return AccessDenied(message, verb, resource_of(path))
    if status == 404:
        return NotFoundInCluster(message)
    if status == 409:
        return Conflict(message)
    if status == 410:
        return ResourceVersionExpired(message)
    if status in (400, 405, 406, 415, 422):
        return InvalidRequest(message)
    return ClusterUnavailable(f"the API server failed: {message}", hint="Ask again soon; its log says more.")


def _unavailable_error(error: Exception) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"the API server cannot be reached: {str(error)[:300] or type(error).__name__}",
        hint="Check --kubernetes, the network policy of this pod, and that the API server runs.",
    )


def resource_of(path: str) -> str:
    """The resource of a path, as an RBAC rule names it: `pods`, `pods/ephemeralcontainers`."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "/".join(rest[::2]) if rest else path
