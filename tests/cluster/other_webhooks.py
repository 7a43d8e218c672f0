"""Webhooks of other people, as real HTTPS servers: one that is asked after ours, one that is not trusted."""

from __future__ import annotations

import base64
import datetime
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sidelight.server_tls import TlsContext
from sidelight_injector.certificates.certificates import CertificatePolicy, make_authority, make_leaf
from tests.cluster.api import Api
from tests.cluster.injector_world import ASKED

DAY = datetime.timedelta(days=1)


@contextmanager
def serving(context: ssl.SSLContext, port: int = 0) -> Iterator[tuple[int, list[bytes]]]:
    """An HTTPS server that adds a container `theirs` to every pod; its port, and the bodies it was sent."""
    asked: list[bytes] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["content-length"])))
            told = json.dumps(_with_theirs(json.loads(asked[-1]))).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Answer)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _with_theirs(review: dict[str, Any]) -> dict[str, Any]:
    names = [one["name"] for one in review["request"]["object"]["spec"]["containers"]]
    patch = [{"op": "add", "path": "/spec/containers/-", "value": {"name": "theirs", "image": "x"}}]
    text = base64.b64encode(json.dumps([] if "theirs" in names else patch).encode()).decode()
    response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": text}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


@contextmanager
def somebody_else(api: Api) -> Iterator[None]:
    """Another team's webhook, asked after ours: its name is later in the alphabet."""
    now = datetime.datetime.now(datetime.UTC)
    plan = CertificatePolicy(("127.0.0.1",), DAY, 3 * DAY, DAY)
    authority = make_authority(now, plan.authority_lifetime)
    leaf = make_leaf(authority, now, plan)
    tls = TlsContext()
    tls.set_certificate(leaf.certificate, leaf.key)
    with serving(tls.context) as (port, _):
        bundle = base64.b64encode(authority.certificate.encode()).decode()
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        entry = {
            "name": "theirs.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
            "namespaceSelector": {"matchLabels": ASKED},
            "rules": [rule],
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
        api.apply({**kind, "metadata": {"name": "zz-somebody-else"}, "webhooks": [entry]})
        try:
            yield
        finally:
            api.kubectl("delete", "mutatingwebhookconfiguration", "zz-somebody-else")
