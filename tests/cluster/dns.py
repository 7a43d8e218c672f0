"""Names of Services for the pods of a test's node: `<service>.<namespace>.svc.cluster.local`, from the API.

Messages as in RFC 1035, addresses (A) alone; every other type of a name that exists has no records, and every
other name does not exist. Each answer is asked of the API anew.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import socketserver
import ssl
import struct
from pathlib import Path
from urllib.parse import urlsplit

ZONE = ["svc", "cluster", "local"]
ADDRESS, INTERNET = 1, 1
NO_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 2, 3


class Names:
    """The Services that an API server knows."""

    def __init__(self, url: str, pki: Path) -> None:
        self._host = urlsplit(url)
        self._trust = ssl.create_default_context(cafile=pki / "ca.crt")
        self._trust.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def addresses(self, labels: list[str]) -> list[str] | None:
        """Where a name leads: the Service's address, else those of its pods; None: no such name."""
        if len(labels) != 5 or labels[2:] != ZONE:
            return None
        service, namespace = labels[:2]
        found = self._get(f"/api/v1/namespaces/{namespace}/services/{service}")
        if found is None:
            return None
        if (address := found["spec"].get("clusterIP", "None")) != "None":
            return [address]
        slices = self._get(
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
            f"?labelSelector=kubernetes.io/service-name%3D{service}"
        )
        ends = [end for part in (slices or {}).get("items", []) for end in part.get("endpoints") or []]
        return [a for end in ends if end.get("conditions", {}).get("ready", True) for a in end["addresses"]]

    def _get(self, path: str) -> dict | None:  # type: ignore[type-arg]
        connection = http.client.HTTPSConnection(
            str(self._host.hostname), self._host.port, timeout=5, context=self._trust
        )
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else None  # type: ignore[no-any-return]
        finally:
            connection.close()


def question(message: bytes) -> tuple[list[str], int, int]:
    """The name that a message asks for, its type, and where the question ends."""
    labels, at = [], 12
    while length := message[at]:
        labels.append(message[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    [kind] = struct.unpack_from(">H", message, at + 1)
    return labels, kind, at + 5


def answer(message: bytes, names: Names) -> bytes:
    """The answer to a message with one question."""
    labels, kind, end = question(message)
    try:
        addresses = names.addresses(labels)
        code = NO_ERROR if addresses is not None else NO_SUCH_NAME
    except OSError:
        addresses, code = [], SERVER_FAILURE
    found = (addresses or []) if kind == ADDRESS else []
    flags = 0x8580 | code
    header = message[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0)
    records = [
        struct.pack(">HHHIH", 0xC00C, ADDRESS, INTERNET, 2, 4) + socket.inet_aton(address)
        for address in found
    ]
    return header + message[12:end] + b"".join(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("url")
    parser.add_argument("pki", type=Path)
    given = parser.parse_args()
    names = Names(given.url, given.pki)

    class Asked(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            message, sender = self.request
            sender.sendto(answer(message, names), self.client_address)

    with socketserver.ThreadingUDPServer((given.address, 53), Asked) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
