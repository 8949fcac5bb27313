"""/api/sequences/admit, revoke and admitted: whose acknowledgments of transactional messages are believed."""

from litestar import get, post
from litestar.params import JSONBody

from waypost.client.remote.schema import Admit, Admitted, AdmittedAddress, AdmittedAddresses
from waypost.http.parameters import Served


@post("/api/sequences/admit", status_code=200)
async def admit(data: JSONBody[Admit], service: Served) -> Admitted:
    """Believe what a queue manager acknowledges from this address, now and from now on."""
    return Admitted(await service.manager.admit_sequence_address(data.guid, data.address))


@post("/api/sequences/revoke", status_code=204)
async def revoke(data: JSONBody[Admit], service: Served) -> None:
    """Take back that an address was admitted. What was applied stays applied."""
    await service.manager.revoke_sequence_address(data.guid, data.address)


@get("/api/sequences/admitted")
async def admitted(service: Served) -> AdmittedAddresses:
    """Addresses that operators have admitted, with their queue managers."""
    found = await service.manager.admitted_sequence_addresses()
    return AdmittedAddresses([AdmittedAddress(guid, address) for guid, address in found])
