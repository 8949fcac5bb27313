"""Links for browsers: POST /api/links makes one with a one-time code, and GET /open exchanges it for a session."""

from http import HTTPStatus
from typing import Final

from msgspec import Struct

from waypost.api.status import CreateLink, LinkInfo
from waypost.http.askers import cookie_name, peer_of
from waypost.http.pages import page
from waypost.http.requests import Request, Response
from waypost.http.routes import Route, of
from waypost.http.service import Service
from waypost.http.sessions import CODE_SECONDS, SESSION_SECONDS
from waypost.security.callers import Role

PATH: Final = "/open"

_WELCOME: Final = """<meta http-equiv="refresh" content="0; url=/">
<p>This browser is logged on. <a href="/">Continue</a>"""
_EXPIRED: Final = """<p>The link is invalid. It was used before, it is older than ten minutes, or the daemon restarted.
<p>Run <code>waypost open</code> for another one."""


class Opening(Struct, frozen=True):
    """The code of a link."""

    code: str = ""


async def create_link(service: Service, _: CreateLink) -> LinkInfo:
    return LinkInfo(path_with(service.sessions.new_code()), CODE_SECONDS)


def path_with(code: str) -> str:
    return f"{PATH}?code={code}"


async def _open(service: Service, asked: Opening, request: Request) -> Response:
    """Log a browser on. The page that follows is not a redirect: browsers keep strict cookies from those."""
    session = service.sessions.open(asked.code, peer_of(request.scope).account()) if asked.code else None
    if session is None:
        return page(_EXPIRED, HTTPStatus.FORBIDDEN)
    settings = service.settings
    secure = "; Secure" if settings.tls_cert else ""
    cookie = f"{cookie_name(settings)}={session}; Path=/; Max-Age={SESSION_SECONDS:.0f}; HttpOnly; SameSite=Strict"
    answer = page(_WELCOME)
    answer.headers = {**answer.headers, "set-cookie": cookie + secure}
    return answer


OPEN: Final = Route(
    method="GET",
    path=PATH,
    name="open",
    asked=Opening,
    perform=of(Opening, _open),
    asks=Role.NONE,
    is_shown=False,
)
