"""/api/store/verification: look at everything that is stored."""

from litestar import get, post

from waypost.http.parameters import Served
from waypost.http.verifier import VerificationObject


@post("/api/store/verification", status_code=202)
async def start_verification(service: Served) -> VerificationObject:
    """Verify everything that is stored, or join the verification that is under way. GET shows how far it is."""
    service.verifier.start()
    return service.verifier.state


@get("/api/store/verification")
async def show_verification(service: Served) -> VerificationObject:
    """How far the last verification is, and its report when it is over."""
    return service.verifier.state
