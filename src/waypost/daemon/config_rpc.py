"""Keys of the configuration about RPC: readers of other hosts, and reading from them."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from waypost.remote.context import QM2QM_PORT, REMOTE_READ_PORT, RemoteSettings
from waypost.rpc.authentication import Level
from waypost.rpc.settings import MAPPER_PORT

# A timer of more than a hundred years is a mistake.
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=0xFFFF_FFFF)]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF)]


class Rpc(Struct, frozen=True, forbid_unknown_fields=True):
    """Remote reading by other hosts (MS-MQRR, MS-MQQP), on the address of `transfer.bind`."""

    enabled: Annotated[bool, Meta(description="Let other hosts read queues of this computer over RPC.")] = True
    port: Annotated[
        Port,
        Meta(
            description="TCP port of RemoteRead and qmcomm. If the port is in use, the daemon tries further ports in "
            "steps of 11."
        ),
    ] = REMOTE_READ_PORT
    qm2qm_port: Annotated[
        Port,
        Meta(
            description="TCP port of qm2qm, the older interface. If the port is in use, the daemon tries further "
            "ports in steps of 11."
        ),
    ] = QM2QM_PORT
    epm: Annotated[bool, Meta(description="Run an endpoint mapper, which reports these ports to clients.")] = False
    epm_port: Annotated[Port, Meta(description="TCP port of the endpoint mapper. Clients expect 135.")] = MAPPER_PORT
    max_connections: Annotated[int, Meta(ge=1, description="Maximum number of connections of remote readers.")] = 2000
    max_connections_per_peer: Annotated[
        int, Meta(ge=1, description="Maximum number of connections from each address (each /64 network of IPv6).")
    ] = 1000
    refusals_per_minute: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of protocol errors and wrong passwords from one address, per minute. Above "
            "this limit, the address must wait.",
        ),
    ] = 60
    pending_request_timeout_s: Annotated[
        Seconds, Meta(description="Time that a message stays locked for its remote reader, in seconds.")
    ] = RemoteSettings().pending_request_timeout_s
    min_auth_level: Annotated[
        Literal["", Level],
        Meta(
            description="Minimum protection of a call. Empty: privacy if users or Kerberos are configured. Otherwise "
            "none, but only for programs on this computer that run as the account of the daemon or as root. `none`: "
            "every program that reaches the port can read."
        ),
    ] = ""
    allow_nonauthenticated: Annotated[
        bool,
        Meta(
            description="Accept calls without authentication from clients in a workgroup, and from all clients unless "
            "deny_workgroup_clients is true (AllowNonauthenticatedRpc of MSMQ)."
        ),
    ] = False
    deny_workgroup_clients: Annotated[
        bool,
        Meta(
            description="With allow_nonauthenticated, accept calls without authentication only from clients in a "
            "workgroup (NewRemoteReadServerDenyWorkgroupClient of MSMQ)."
        ),
    ] = False
    allow_none_security_clients: Annotated[
        bool,
        Meta(
            description="Accept calls without authentication to queues that the anonymous user may read "
            "(NewRemoteReadServerAllowNoneSecurityClient of MSMQ)."
        ),
    ] = False
    users_file: Annotated[
        str,
        Meta(
            description="File with users that may authenticate with NTLM, one `DOMAIN:user:password` per line. It is "
            "imported into the user store once, at the first start that finds users in it."
        ),
    ] = ""
    kerberos: Annotated[
        bool,
        Meta(description="Accept Kerberos authentication. Requires the extra `kerberos` and a key of this computer."),
    ] = False


class Remote(Struct, frozen=True, forbid_unknown_fields=True):
    """Remote reading of queues on other hosts: `waypost receive 'DIRECT=OS:other\\private$\\orders'`."""

    user: Annotated[
        str,
        Meta(
            description="User to authenticate as, `DOMAIN\\user` or `user@REALM`. Empty: at level none, no "
            "authentication. At other levels, the Kerberos identity of this process."
        ),
    ] = ""
    password: Annotated[str, Meta(description="Password of the user. Empty: the user authenticates with Kerberos.")] = (
        ""
    )
    password_file: Annotated[str, Meta(description="File with the password, instead of `password`.")] = ""
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Host names and IP addresses that the daemon may log on to as `user`, as the names of queues "
            "have them. Empty: the hosts in `routing.routes`. A host that is not listed would learn a proof of the "
            "password from any program that names it."
        ),
    ] = ()
    level: Annotated[
        Literal["", Level],
        Meta(description="Protection of calls. Empty: privacy if a user is set, otherwise none."),
    ] = ""
    rpc_port: Annotated[
        Port,
        Meta(
            description="TCP port of RemoteRead on other hosts. 0: the port that the endpoint mapper of the host "
            "returns, otherwise 2103."
        ),
    ] = 0
    qm2qm_port: Annotated[
        Port,
        Meta(
            description="TCP port of qm2qm on hosts that have only the older interface. 0: the port that the "
            "endpoint mapper of the host returns, otherwise 2105."
        ),
    ] = 0
    epm_port: Annotated[
        Port, Meta(description="TCP port of the endpoint mapper on other hosts. 0: do not use the endpoint mapper.")
    ] = MAPPER_PORT
    timeout_s: Annotated[
        Seconds,
        Meta(
            description="Maximum time to connect to a host, and maximum time for the answer to a call that does not "
            "wait for a message, in seconds."
        ),
    ] = 10.0
