"""Load the configuration: from a TOML file, then the environment, then flags, then --set; later ones win.

Every value is checked with its source, so that an error is one sentence that names the place.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from msgspec import ValidationError, convert
from msgspec.structs import replace

from waypost.daemon.config import SECTIONS, Config, Http, Key, Remote, Rpc, keys
from waypost.daemon.configured_hosts import parse_ack_addresses, parse_relays, parse_routes
from waypost.errors import DecodeError, IllegalSddl, IllegalSecurityDescriptor, InvalidParameter
from waypost.security.permissions import with_denied_first, with_machine_rights
from waypost.security.rights import check_rights
from waypost.wire.access_masks import MachineAccess
from waypost.wire.ip_addresses import is_address
from waypost.wire.path_names import check_computer_name
from waypost.wire.sddl import parse_sddl

_KEYS: Final = {key.path: key for key in keys()}
_PREFIX: Final = "WAYPOST_"
_DEFAULT_HTTP: Final = "127.0.0.1"
# Only the environment can have it: others read configurations, and lists of processes.
_PASSPHRASE: Final = "security.key_passphrase"


class ConfigError(InvalidParameter):
    """Invalid configuration. `hint` says what to do."""

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence, hint)
        self.sentence = sentence
        self.hint = hint

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class _Given:
    """A value, its source in words, and whether it is text for a value of another type."""

    path: str
    value: object
    where: str
    is_text: bool


def load(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, tuple[str, object]], settings: Sequence[str]
) -> Config:
    """Load the configuration. `flags` maps key paths to flag names and values; `settings` are SECTION.KEY=VALUE."""
    given = [
        *(_from_file(file) if file is not None else ()),
        *_from_environment(environment),
        *(_Given(path, value, flag, is_text=False) for path, (flag, value) in flags.items()),
        *(_from_setting(setting) for setting in settings),
    ]
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for each in given:
        key = _known(each)
        if key.path == _PASSPHRASE and each.where != key.variable:
            raise _misplaced_passphrase(each.where, key.variable)
        values[key.section][key.name] = _value(key, each)
    config = Config(**{section: struct(**values[section]) for section, struct in SECTIONS.items()})
    return _checked(config)


def _misplaced_passphrase(where: str, variable: str) -> ConfigError:
    """The error does not repeat the passphrase."""
    place = where.partition("=")[0] if where.startswith("--set ") else where
    return ConfigError(
        f"{place}: {_PASSPHRASE} is accepted only from the environment.",
        f"set the variable {variable}, or write the passphrase to a file and set {_PASSPHRASE}_file to its path.",
    )


def _from_file(path: Path) -> Iterator[_Given]:
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.", "specify the file with --config.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text.", "save the file as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not a valid TOML file: {error}.", "https://toml.io explains the syntax."
        ) from None
    for section, table in tables.items():
        if section not in SECTIONS or not isinstance(table, dict):
            raise _unknown(section, _place(path, text, section, ""))
        for name, value in table.items():
            yield _Given(f"{section}.{name}", value, _place(path, text, section, name), is_text=False)


def _place(path: Path, text: str, section: str, name: str) -> str:
    """The file, with the line of a key if it is written in a usual way."""
    current = ""
    word = re.compile(r"\s*(?:\[\s*)?([\w.-]+)")
    wanted = f"{section}.{name}" if name else section
    for number, line in enumerate(text.splitlines(), 1):
        match = word.match(line)
        if match is None:
            continue
        is_header = line.lstrip().startswith("[")
        found = match[1] if is_header or not current else f"{current}.{match[1]}"
        if found == wanted:
            return f"{path}, line {number}"
        if is_header:
            current = match[1]
    return str(path)


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Given]:
    """Values of variables. Variables without a section, such as WAYPOST_URL, have other uses."""
    by_variable = {key.variable: key for key in _KEYS.values()}
    for variable, value in environment.items():
        if variable in by_variable:
            yield _Given(by_variable[variable].path, value, variable, is_text=True)
        elif any(variable.startswith(f"{_PREFIX}{section.upper()}_") for section in SECTIONS):
            near = get_close_matches(variable, by_variable, 1, 0)
            raise ConfigError(f"Unknown variable {variable}.", f"did you mean {near[0]}?")


def _from_setting(setting: str) -> _Given:
    path, equals, value = setting.partition("=")
    if not equals:
        raise ConfigError(f"--set {setting} has no value.", "write --set SECTION.KEY=VALUE.")
    return _Given(path.strip(), value, f"--set {setting}", is_text=True)


def _known(given: _Given) -> Key:
    key = _KEYS.get(given.path)
    if key is None:
        raise _unknown(given.path, given.where)
    return key


def _unknown(path: str, where: str) -> ConfigError:
    if path in SECTIONS:
        return ConfigError(f"{where}: {path} is a section.", f"write the line [{path}], and the keys below this line.")
    _, dot, name = path.rpartition(".")
    if not dot:
        near = get_close_matches(path, [*SECTIONS, *_KEYS], 1, 0)
    else:
        # A key of this name in another section is nearer than another key of this section.
        same = [known for known, key in _KEYS.items() if key.name == name]
        near = same or get_close_matches(path, _KEYS, 1, 0)
    return ConfigError(f"{where}: unknown key {path}.", f"did you mean {near[0]}?")


def _value(key: Key, given: _Given) -> object:
    value = given.value
    if given.is_text and _is_list(key.type):
        value = [part.strip() for part in str(value).split(",")] if str(value).strip() else []
    try:
        return convert(value, key.type, strict=not given.is_text)
    except ValidationError as error:
        reason = str(error).replace("`", "")
        raise ConfigError(
            f"{given.where}: invalid value of {key.path}: {reason[:1].lower()}{reason[1:]}.",
            f"{_choices(key)}the default is {key.default!r}; see docs/config.md.",
        ) from None


def _is_list(annotated: Any) -> bool:
    return get_origin(get_args(annotated)[0]) is tuple


def _choices(key: Key) -> str:
    """The choices of a key, in words, if it has choices."""
    plain = get_args(key.type)[0]
    if get_origin(plain) is tuple:
        plain = get_args(plain)[0]
    if get_origin(plain) is not Literal:
        return ""
    return f"use one of {', '.join(each for each in get_args(plain) if each)}; "


def _checked(config: Config) -> Config:
    """Check values that depend on each other. The result has the token from its file, and the address of HTTP."""
    if config.names.computer:
        try:
            check_computer_name(config.names.computer, 0)
        except DecodeError as error:
            raise ConfigError(
                f"names.computer is {config.names.computer}, which is not a computer name: {error.reason}.",
                "set another name with --name.",
            ) from None
    for path, address in (("transfer.bind", config.transfer.bind), ("http.bind", config.http.bind)):
        if address and not is_address(address):
            raise ConfigError(
                f"{path} is {address}, which is not an IP address.", "use an address such as 127.0.0.1 or ::1."
            )
    _check_others(config)
    http = replace(
        config.http,
        bind=_http_address(config.http.bind, config.transfer.bind),
        token=_secret("http.token", config.http.token, config.http.token_file),
    )
    if http.enabled:
        _check_exposure(http)
    if config.rpc.enabled:
        _check_logons(config.rpc)
        machine_security(config.security.machine)
    security = config.security
    passphrase = _secret(_PASSPHRASE, security.key_passphrase, security.key_passphrase_file)
    return replace(
        config,
        http=http,
        security=replace(security, key_passphrase=passphrase),
        remote=_with_password(config.remote),
    )


def _check_others(config: Config) -> None:
    """Check the keys about other queue managers."""
    try:
        parse_routes(config.routing.routes)
    except ValueError as error:
        raise ConfigError(
            f"routing.routes contains {error}, which is not a route.", "use GUID=HOST, or GUID=via GUID."
        ) from None
    try:
        parse_relays(config.routing.relays)
    except ValueError as error:
        raise ConfigError(
            f"routing.relays contains {error}, which is neither a GUID nor an IP address.",
            "use the address of the relay, or the GUID that `waypost status` shows on the relay.",
        ) from None
    try:
        parse_ack_addresses(config.transfer.ack_addresses)
    except ValueError as error:
        raise ConfigError(
            f"transfer.ack_addresses contains {error}, which is not an address.", "use GUID=ADDRESS, or ADDRESS."
        ) from None


def _http_address(bind: str, transfer_bind: str) -> str:
    if bind:
        return bind
    return transfer_bind if transfer_bind and ip_address(transfer_bind).is_loopback else _DEFAULT_HTTP


def _with_password(remote: Remote) -> Remote:
    password = _secret("remote.password", remote.password, remote.password_file)
    if password and not remote.user:
        raise ConfigError("remote.password is set without remote.user.", "set remote.user.")
    if remote.user and remote.level == "none":
        raise ConfigError("remote.user has no effect if remote.level is none.", "remove one of the two keys.")
    return replace(remote, password=password)


def _secret(path: str, given: str, file: str) -> str:
    """The value of a key whose sibling PATH_file may name a file with it."""
    if not file:
        return given
    what = path.rpartition(".")[2]
    if given:
        raise ConfigError(f"{path} and {path}_file are mutually exclusive.", "remove one of the two keys.")
    hint = f"{path}_file must be the path of a text file with the {what}."
    try:
        secret = Path(file).expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"Cannot read {file}: {error.strerror or error}.", hint) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text.", hint) from None
    if not secret:
        raise ConfigError(f"{file} contains no {what}.", f"write one line with the {what} into the file.")
    return secret


def _check_exposure(http: Http) -> None:
    if bool(http.tls_cert) != bool(http.tls_key):
        raise ConfigError("only one of http.tls_cert and http.tls_key is set.", "set both keys or neither key.")
    if ip_address(http.bind).is_loopback:
        return
    if not http.token and http.access == "open":
        raise ConfigError(
            f"The HTTP API on {http.bind} is reachable from other computers, and therefore requires a token.",
            'remove http.access = "open", or set http.token or http.token_file.',
        )
    if not http.tls_cert and not http.allow_insecure:
        raise ConfigError(
            f"The HTTP API on {http.bind} is reachable from other computers, and therefore requires TLS.",
            "set http.tls_cert and http.tls_key, or http.allow_insecure=true behind a proxy with TLS.",
        )


def machine_security(text: str) -> bytes:
    """The security descriptor of the computer; b"" for the default. Raises ConfigError."""
    if not text:
        return b""
    try:
        found = with_denied_first(with_machine_rights(parse_sddl(text)))
        check_rights(found, MachineAccess.MQSEC_MACHINE_GENERIC_ALL)
    except (IllegalSddl, IllegalSecurityDescriptor) as error:
        raise ConfigError(
            f"security.machine is not a security descriptor of a computer: {error}.",
            "write SDDL such as D:(A;;GA;;;BA)(A;;GW;;;AU), or remove the key.",
        ) from None
    return found.encode()


def _check_logons(rpc: Rpc) -> None:
    """Refuse a configuration that requires authentication and makes it impossible."""
    if rpc.kerberos and not _has_kerberos():
        raise ConfigError(
            "rpc.kerberos is true, but the extra kerberos is not installed.",
            "run pip install 'waypost[kerberos]'.",
        )


def _has_kerberos() -> bool:
    """Whether Kerberos works: always on Windows; elsewhere with the extra and the libraries of the system."""
    if sys.platform == "win32":
        return True
    try:
        import_module("gssapi")
        import_module("krb5")
    except (ImportError, OSError):
        return False
    return True
