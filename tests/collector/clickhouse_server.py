"""ClickHouse's HTTP interface in front of chdb, as a process of its own.

chdb is ClickHouse's engine without its server. What is real here: the engine (its SQL, bound parameters, s3()
over a real S3 server with credentials of its own, named collections, clusters as configured, Arrow, its
errors and time limits). What is not: the server around it, of which this speaks what a collector uses. A
statement and its parameters come as fields of a form, settings in the URL, the login by HTTP basic; an
exception is answered as status 500 with its text and its code in a header.
https://clickhouse.com/docs/interfaces/http
"""

from __future__ import annotations

import argparse
import re
from base64 import b64decode
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import chdb

MAX_FIELD_BYTES = 131_072  # http_max_field_value_size
OF_THE_SERVER = ("wait_end_of_query",)


class Server(BaseHTTPRequestHandler):
    """Answers POST / with what the engine makes of it."""

    login = ""
    options: dict[str, str] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        if b64decode(given).decode() != self.login:
            user = b64decode(given).decode().partition(":")[0]
            self.answer(
                403, f"Code: 516. DB::Exception: {user}: Authentication failed (AUTHENTICATION_FAILED)"
            )
            return
        settings = {
            name: value for name, value in parse_qsl(urlsplit(self.path).query) if name not in OF_THE_SERVER
        }
        try:
            fields = self.fields(body)
            parameters = {
                name.removeprefix("param_"): fields[name] for name in fields if name.startswith("param_")
            }
            made = chdb.query(fields["query"], params=parameters, options={**self.options, **settings})
        except Exception as error:  # noqa: BLE001
            self.answer(500, str(error))
            return
        self.answer(200, made.bytes())

    def fields(self, body: bytes) -> dict[str, str]:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        found = {}
        for part in BytesParser(policy=HTTP).parsebytes(head + body).iter_parts():
            value = part.get_payload(decode=True)
            if len(value) > MAX_FIELD_BYTES:
                raise ValueError("Code: 1000. DB::Exception: Field value too long (POCO_EXCEPTION)")
            found[part.get_param("name", header="content-disposition")] = value.decode()
        return found

    def answer(self, status: int, content: bytes | str) -> None:
        body = content if isinstance(content, bytes) else content.encode()
        self.send_response(status)
        if isinstance(content, str) and (code := re.search(r"Code: (\d+)", content)):
            self.send_header("X-ClickHouse-Exception-Code", code[1])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--login", required=True, help="user:password")
    parser.add_argument("--config", type=Path, help="a configuration file of ClickHouse")
    given = parser.parse_args()
    Server.login = given.login
    if given.config:
        Server.options = {"config-file": str(given.config)}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    given.port_file.write_text(str(server.server_port))
    server.serve_forever()


if __name__ == "__main__":
    main()
