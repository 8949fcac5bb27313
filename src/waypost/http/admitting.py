"""/api/sequences/admit: whose acknowledgments of transactional messages are believed."""

from litestar.params import JSONBody

from waypost.client.remote.schema import Admit, Admitted
from waypost.http.parameters import Served
from waypost.http.routing import post


@post("/api/sequences/admit", status_code=200)
async def admit(data: JSONBody[Admit], service: Served) -> Admitted:
    """Believe what a queue manager acknowledges from this address, now and from now on."""
    return Admitted(await service.manager.admit_sequence_address(data.guid, data.address))
