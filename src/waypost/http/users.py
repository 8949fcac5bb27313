"""Users over HTTP: operations with secrets, which are hashed in a thread, and logins with a cookie for people."""

import asyncio
from http import HTTPStatus
from typing import Final

from msgspec import UNSET, Struct

from waypost.api.local import Note, NoteStranger
from waypost.api.operations import Operation
from waypost.api.users import SetPassword
from waypost.drive.passwords import prepared
from waypost.errors import AccessDenied, TooManyLogins, WaypostError
from waypost.http.logins import SESSION_SECONDS
from waypost.http.problems import problem
from waypost.http.request_guard import LOGIN_PATH
from waypost.http.requests import Request, Response, encoded
from waypost.http.routes import Nothing, Route, of
from waypost.http.service import Service
from waypost.security.callers import Role, anonymous


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    """The name and the password of a user."""

    name: str
    password: str


async def perform(service: Service, operation: Operation[object]) -> Struct | None:
    """Perform an operation of waypost.api.users.PREPARED."""
    name: str = operation.name  # type: ignore[attr-defined]  # all of these have it
    guesses = isinstance(operation, SetPassword) and operation.current is not UNSET
    origin = service.caller.origin
    if guesses:
        service.logins.check_limits(name, origin)
    user = service.node.users.find(name)
    made = await asyncio.get_running_loop().run_in_executor(None, prepared, operation, user)
    try:
        reply = made.reply(await service.call(made.operation))
    except AccessDenied:
        if guesses:
            service.logins.fail(name, origin)
        raise
    assert reply is None or isinstance(reply, Struct)
    return reply


async def _login(service: Service, asked: Login, request: Request) -> Response:
    """Log in with a name and a password. The answer sets a cookie, which expires after twelve hours."""
    try:
        session = await service.logins.open_session(asked.name, asked.password, service.caller.origin)
    except (AccessDenied, TooManyLogins) as error:
        return refused_login(service, service.caller.origin, asked.name, error, request)
    service.start(Note(what="log in", object=asked.name))
    secure = "; Secure" if service.settings.tls_cert else ""
    cookie = f"{service.logins.cookie}={session}; Path=/; Max-Age={SESSION_SECONDS:.0f}; HttpOnly; SameSite=Strict"
    return Response(b"", HTTPStatus.NO_CONTENT, headers={"set-cookie": cookie + secure, "cache-control": "no-store"})


async def _logout(service: Service, _: Nothing, request: Request) -> Response:
    """Log out, and end the session of the cookie."""
    service.logins.close_session(dict(request.headers))
    cookie = f"{service.logins.cookie}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
    return Response(b"", HTTPStatus.NO_CONTENT, headers={"set-cookie": cookie})


def refused_login(service: Service, origin: str, name: str, error: WaypostError, request: Request) -> Response:
    """The answer to a login that failed, or was not tried. It is noted."""
    service.of(anonymous(origin)).start(Note(what="log in", object=name, result=str(error)))
    status = HTTPStatus.TOO_MANY_REQUESTS if isinstance(error, TooManyLogins) else HTTPStatus.UNAUTHORIZED
    return encoded(request, problem(error), status)


def note_stranger(service: Service, origin: str, path: str, reason: str) -> None:
    """Note the request of an unknown caller."""
    service.of(anonymous(origin)).start(NoteStranger(path=path, reason=reason))


LOGIN: Final = Route(
    method="POST",
    path=LOGIN_PATH,
    name="login",
    asked=Login,
    body=Login,
    perform=of(Login, _login),
    asks=Role.NONE,
    status=HTTPStatus.NO_CONTENT,
)
LOGOUT: Final = Route(
    method="POST",
    path="/api/logout",
    name="logout",
    asked=Nothing,
    perform=of(Nothing, _logout),
    asks=Role.NONE,
    status=HTTPStatus.NO_CONTENT,
)
