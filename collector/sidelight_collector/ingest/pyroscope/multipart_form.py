"""Read the fields of a form (multipart/form-data, RFC 7578) that is in memory."""

from __future__ import annotations

import re
from email.message import Message
from typing import Final

from sidelight_collector.ingest.pyroscope.profile_sums import BadProfile

MAX_FIELDS: Final = 16
_MAX_HEAD_BYTES: Final = 1024
_NAME: Final = re.compile(rb';\s*name="?([^";\r\n]*)"?', re.IGNORECASE)


def parse_form(body: bytes, content_type: str) -> dict[str, bytes]:
    """Return the contents of the fields by name; the last of two with one name stays.

    Raises BadProfile for a body that is no form, or has more than MAX_FIELDS fields.
    """
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        raise BadProfile("its Content-Type has no boundary", "Send multipart/form-data with a boundary.")
    delimiter = b"\r\n--" + boundary.encode(errors="replace")
    parts = (b"\r\n" + body).split(delimiter, MAX_FIELDS + 2)
    if len(parts) < 3 or not parts[-1].startswith(b"--"):
        raise BadProfile(
            f"the form is cut, or has more than {MAX_FIELDS} fields", "Send a form with the field `profile`."
        )
    fields = {}
    for part in parts[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        if name := _NAME.search(head[:_MAX_HEAD_BYTES]):
            fields[name[1].decode(errors="replace")] = content
    return fields
