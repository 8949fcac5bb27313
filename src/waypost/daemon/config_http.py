"""The keys of the section [http]."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from waypost.api.defaults import HTTP_PORT, LEASE_SECONDS
from waypost.daemon.config_types import Count, Port, Seconds
from waypost.limits import MAX_HTTP_WAIT_SECONDS


class Http(Struct, frozen=True, forbid_unknown_fields=True):
    """HTTP API, metrics and console."""

    enabled: Annotated[bool, Meta(description="Enable the HTTP API.")] = True
    bind: Annotated[
        str,
        Meta(
            description="IP address to listen on. If empty, the daemon uses `transfer.bind` if that is a loopback "
            "address, and 127.0.0.1 otherwise. The API gives full control of the queue manager. Therefore, an address "
            "other than a loopback address requires a token, and also TLS or `allow_insecure`."
        ),
    ] = ""
    port: Annotated[Port, Meta(description="TCP port to listen on. The value 0 means any free port.")] = HTTP_PORT
    access: Annotated[
        Literal["token", "open"],
        Meta(
            description="Access over TCP if the keys `token` and `token_file` are not set. With `token`, clients must "
            "send the token from the file `token` in the data folder. The daemon creates this file at its first start. "
            "Programs that run under the account of the daemon find the token automatically, or use the Unix socket "
            "`http.sock` of the data folder. With `open`, every program that can connect to the port has full control, "
            "if the queue manager has no users."
        ),
    ] = "token"
    token: Annotated[
        str,
        Meta(
            description="Bearer token that clients must send, instead of the token in the data folder. If empty, the "
            "key `access` applies."
        ),
    ] = ""
    token_file: Annotated[str, Meta(description="File with the token, instead of `token`.")] = ""
    metrics: Annotated[
        Literal["token", "open"],
        Meta(description="Access to `/metrics`. With `open`, clients such as Prometheus do not need a token."),
    ] = "token"
    tls_cert: Annotated[str, Meta(description="File with the TLS certificate and its chain, in PEM.")] = ""
    tls_key: Annotated[str, Meta(description="File with the private key of the certificate, in PEM.")] = ""
    allow_insecure: Annotated[
        bool,
        Meta(
            description="Allow HTTP without TLS on addresses other than loopback addresses, for example behind a TLS "
            "proxy."
        ),
    ] = False
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Additional host names under which browsers can access the API without a token. IP addresses, "
            "localhost and the name of the computer are always allowed."
        ),
    ] = ()
    max_wait_s: Annotated[
        Seconds, Meta(description="Maximum time for which a request waits for messages, in seconds.")
    ] = MAX_HTTP_WAIT_SECONDS
    transaction_s: Annotated[
        Seconds,
        Meta(
            description="Time after which an unused transaction aborts, in seconds. A client can request a different "
            "time of up to one hour."
        ),
    ] = LEASE_SECONDS
    handle_s: Annotated[
        Seconds, Meta(description="Time after which an unused cursor or exclusive handle closes, in seconds.")
    ] = LEASE_SECONDS
    max_connections: Annotated[
        Count,
        Meta(
            description="Maximum number of connections. When this limit is reached, new connections get the status "
            "503. If a token is required, half of the connections are reserved for clients that have sent the token."
        ),
    ] = 1024
    max_connections_per_peer: Annotated[
        Count,
        Meta(
            description="Maximum number of connections without the token from one IPv4 address or IPv6 /64 network. "
            "When this limit is reached, a new connection replaces the connection that has been idle longest. If no "
            "connection is idle, the daemon closes the new connection."
        ),
    ] = 256
