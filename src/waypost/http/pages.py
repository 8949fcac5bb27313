"""Pages for people. They load nothing, and no other site may show them in a frame."""

from http import HTTPStatus
from typing import Final

from waypost.http.requests import Response

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Waypost</title>
<h1>Waypost</h1>
{}
</html>
"""
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


def page(content: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(_PAGE.format(content).encode(), status, "text/html; charset=utf-8", _HEADERS)
