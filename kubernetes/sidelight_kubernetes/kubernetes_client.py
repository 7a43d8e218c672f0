"""A client of the Kubernetes API server, with JSON objects and timeouts.

The client blocks: call it in threads. Opening a client imports `kubernetes`, which takes a second and 60
MB; a process without Kubernetes does not pay for it.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sidelight.settings import BadSetting
from sidelight_kubernetes.api_paths import check_path
from sidelight_kubernetes.cluster_errors import ClusterError as ClusterError
from sidelight_kubernetes.label_names import IN_CLUSTER
from sidelight_model.errors import Reason

KubernetesObject = dict[str, Any]
"""An object of the API as plain JSON."""

CONNECT_TIMEOUT_SECONDS: Final = 5.0
RESPONSE_TIMEOUT_SECONDS: Final = 10.0
PAGE_SIZE: Final = 500
WATCH_SLACK_SECONDS: Final = 10.0
"""Time after its timeout at which the client gives up a watch that the server did not end."""
MAX_LINE_BYTES: Final = 32 << 20
_PATCH_CONTENT_TYPES: Final = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
}
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_EXTRA_PREFIX: Final = "authentication.kubernetes.io/"


class ClusterUnavailable(ClusterError):
    """The API server cannot be reached, is too slow, or fails."""

    reason = Reason.CLUSTER_UNAVAILABLE


class AccessDenied(ClusterError):
    """This process is not authorized.

    `verb` and `resource` name the missing permission as an RBAC rule does.
    """

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
    """The object does not exist."""

    reason = Reason.NOT_FOUND


class Conflict(ClusterError):
    """The object has changed since it was read, or exists already: read it again."""

    reason = Reason.CONFLICT


class ResourceVersionExpired(ClusterError):
    """The API server no longer has the version of a watch or a page: list again."""

    reason = Reason.CLUSTER_UNAVAILABLE


class InvalidRequest(ClusterError):
    """The API server does not accept the object or the request."""

    reason = Reason.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event of a watch.

    `type` is ADDED, MODIFIED, DELETED or BOOKMARK.
    """

    type: str
    object: KubernetesObject

    @property
    def version(self) -> str:
        """The resource version from which a later watch may continue."""
        return str(self.object.get("metadata", {}).get("resourceVersion", ""))


@dataclass(frozen=True, slots=True)
class TokenReview:
    """The identity behind a token.

    `error` says why a token is not accepted. `pod`, `pod_uid` and `node` are what the token is bound to, or
    empty.
    """

    authenticated: bool
    username: str = ""
    namespace: str = ""
    service_account: str = ""
    pod: str = ""
    pod_uid: str = ""
    node: str = ""
    error: str = ""


class PagedItems(Iterator[KubernetesObject]):
    """The items of a list, fetched page by page.

    Once all items are read, a watch may start from `version`.
    """

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
            # All pages show the state at the time of the first page.
            self.version = self.version or str(metadata.get("resourceVersion", ""))
            self._continue_token = metadata.get("continue") or None
            self._items = iter(page.get("items") or ())
        return item


class KubernetesClient:
    """A client of one API server; safe to use from several threads."""

    def __init__(self, api: Any, error_types: tuple[type[Exception], ...]) -> None:
        self._api = api
        self._error_types = error_types

    @classmethod
    def open(cls, source: str) -> KubernetesClient:
        """Create a client from `in-cluster` or from the path of a kubeconfig.

        `in-cluster` is the cluster of the pod in which this runs; a kubeconfig stands for its current
        context. Sends no request. Raises BadSetting if the configuration cannot be loaded.
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
            # The library does not wrap the errors of reading and parsing.
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
        """The URL of the API server."""
        return str(self._api.configuration.host)

    def close(self) -> None:
        """Close all connections."""
        self._api.rest_client.pool_manager.clear()
        self._api.close()

    def get(self, path: str, /, **query: str) -> KubernetesObject:
        """Get the object or list at a path such as `/api/v1/namespaces/x/pods/y`.

        Raises NotFoundInCluster, AccessDenied and ClusterUnavailable, as the methods below do, and
        InvalidName for a path with a part that is not a name: use `build_path`.
        """
        return self._request_json("GET", path, query)

    def create(self, path: str, body: Mapping[str, Any], /, **query: str) -> KubernetesObject:
        """Create an object below a path, and return it as the server stored it.

        Raises Conflict if it exists already.
        """
        return self._request_json("POST", path, query, body)

    def replace(self, path: str, body: Mapping[str, Any], /, **query: str) -> KubernetesObject:
        """Replace the object at a path.

        Raises Conflict if that object has changed since it was read.
        """
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
        """Delete an object; the API server may take a while to remove it."""
        return self._request_json("DELETE", path, query)

    def pages(self, path: str, /, **query: str) -> PagedItems:
        """List items page by page, all from the same point in time.

        Iterating raises ResourceVersionExpired if reading the pages took too long.
        """

        def fetch(continue_token: str) -> KubernetesObject:
            more = {"continue": continue_token} if continue_token else {}
            return self._request_json("GET", path, {"limit": str(PAGE_SIZE), **query, **more}, verb="list")

        return PagedItems(fetch)

    def watch(
        self, path: str, version: str, /, *, timeout_seconds: int, **query: str
    ) -> Iterator[WatchEvent]:
        """Yield the events of the objects of a list from `version` on.

        The server ends the watch after `timeout_seconds`; `.close()` ends it early. Raises
        ResourceVersionExpired if the server no longer has this version: list again.
        """
        parameters = {"watch": "true", "allowWatchBookmarks": "true", **query}
        parameters |= {"resourceVersion": version, "timeoutSeconds": str(timeout_seconds)}
        timeout = timeout_seconds + WATCH_SLACK_SECONDS
        response = self._send("GET", path, parameters, None, "", timeout, "watch")
        failures: tuple[type[Exception], ...] = (*self._error_types, ValueError, KeyError)
        try:
            for line in _read_lines(response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _to_cluster_error(
                        int(event["object"].get("code") or 500), event["object"], "watch", path
                    )
                yield WatchEvent(event["type"], event["object"])
        except failures as error:
            raise _unavailable_error(error) from error
        finally:
            response.close()

    def review_token(self, token: str, audience: str) -> TokenReview:
        """Review a token; it is accepted only if the server confirms its `audience`."""
        spec = {"token": token, "audiences": [audience]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = self.create("/apis/authentication.k8s.io/v1/tokenreviews", body).get("status") or {}
        error = str(status.get("error") or "")
        if not status.get("authenticated"):
            return TokenReview(False, error=error or "the API server does not know the token")
        if audience not in (status.get("audiences") or ()):
            # A server without support for audiences accepts any of its own tokens.
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
        """Return whether this process is authorized.

        An empty `namespace` stands for all namespaces.
        """
        attributes = {"verb": verb, "resource": resource, "namespace": namespace}
        attributes |= {"group": group, "subresource": subresource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        review = self.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return bool((review.get("status") or {}).get("allowed"))

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
        response = self._send(
            method, path, query, body, content_type, RESPONSE_TIMEOUT_SECONDS, verb or _VERBS[method]
        )
        failures: tuple[type[Exception], ...] = (*self._error_types, ValueError)
        try:
            document = json.loads(response.data)
        except failures as error:
            raise _unavailable_error(error) from error
        if not isinstance(document, dict):
            raise _unavailable_error(ValueError("its answer is no object"))
        return document

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
        check_path(path)
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
    """List the errors of a connection, including urllib3's own HTTPError."""
    from kubernetes.client.rest import urllib3

    return (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, UnicodeDecodeError)


def _read_lines(response: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError(f"an event of more than {MAX_LINE_BYTES} bytes")
        yield from filter(None, lines)


def _parse_status(error: Exception) -> Mapping[str, Any]:
    """Parse the API server's Status object in the body of an error response."""
    try:
        status = json.loads(getattr(error, "body", "") or "{}")
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}


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
    """Return a path's resource as an RBAC rule names it: `pods/ephemeralcontainers`."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "/".join(rest[::2]) if rest else path
