"""The configuration: where a value comes from, which one counts, and what is said of a wrong one."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from typer.testing import CliRunner

from waypost.cli import app
from waypost.daemon.config import SECTIONS, Config, Key, keys
from waypost.daemon.configured_hosts import parse_relays, parse_routes
from waypost.daemon.loading import ConfigError, load
from waypost.guid import NULL_GUID, parse_guid
from waypost.routing.routes import Relays, Route
from waypost.transfer.handshake import in_ack_range
from waypost.transfer.settings import ResendTimeouts, TransferSettings

ONE = "3d0a537a-a2c7-40a3-944b-bf09bfc6e397"
TWO = "3fb4c246-55e7-4933-abbc-111b57213e5d"


def loaded(*settings: str, environment: dict[str, str] | None = None, **flags: object) -> Config:
    given = {path.replace("__", "."): (f"--{path}", value) for path, value in flags.items()}
    return load(None, environment or {}, given, settings)


def from_file(tmp_path: Path, text: str, *settings: str) -> Config:
    file = tmp_path / "waypost.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, {}, {}, settings)


def complaint(*settings: str, **more: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(*settings, **more)
    return caught.value


def test_nothing_has_to_be_configured() -> None:
    config = loaded()
    assert config.transfer.settings() == TransferSettings()
    assert (config.transfer.bind, config.http.bind, config.http.port) == ("", "127.0.0.1", 8181)


def test_a_later_place_counts_more(tmp_path: Path) -> None:
    file = tmp_path / "waypost.toml"
    file.write_text("[transfer]\nport = 1\nping_port = 1\nwindow_size = 1\nmax_sessions = 1\n", encoding="utf-8")
    environment = {
        "WAYPOST_TRANSFER_PING_PORT": "2",
        "WAYPOST_TRANSFER_WINDOW_SIZE": "2",
        "WAYPOST_TRANSFER_MAX_SESSIONS": "2",
    }
    flags = {"transfer.window_size": ("--x", 3), "transfer.max_sessions": ("--y", 3)}
    transfer = load(file, environment, flags, ["transfer.max_sessions=4"]).transfer
    assert (transfer.port, transfer.ping_port, transfer.window_size, transfer.max_sessions) == (1, 2, 3, 4)


def test_every_timer_of_transfer_reaches_the_queue_manager() -> None:
    settings = loaded(
        "transfer.order_ack_timeout_ms=1",
        "transfer.resend_timeouts_s=1, 2,3.5,4",
        "transfer.ack_wait_timeout_ms=20002",
        "transfer.ack_hosts=known, far.example.org",
        "transfer.session_init_timeout_s=3",
        "transfer.idle_timeout_s=0.5",
        "transfer.retry_connect_s=5",
        "transfer.maximum_order_ack_delay_s=6",
        "transfer.round_trip_delay_ms=7",
        "transfer.duplicate_history_s=8",
        "transfer.duplicate_history_size=9",
        "transfer.window_size=10",
        "transfer.max_sessions=11",
        "transfer.max_sequence_ahead_s=15",
        "transfer.new_sequences_at_once=16",
        "transfer.new_sequences_per_s=17",
        "transfer.send_insecure_nacks=true",
        "transfer.ping=true",
        "transfer.is_routing_server=true",
        "transfer.peer_port=12",
        "transfer.peer_ping_port=13",
        "transfer.port=14",
    ).transfer.settings()
    assert settings == TransferSettings(
        window_size=10,
        ack_wait_timeout_ms=20_002,
        order_ack_timeout_ms=1,
        maximum_order_ack_delay_s=6,
        resend_timeouts=ResendTimeouts(1, 2, 3.5, 4),
        session_init_timeout_s=3,
        idle_timeout_s=0.5,
        retry_connect_s=5,
        round_trip_delay_ms=7,
        duplicate_history_size=9,
        duplicate_history_s=8,
        max_sessions=11,
        max_sequence_ahead_s=15,
        new_sequences_at_once=16,
        new_sequences_per_s=17,
        send_insecure_nacks=True,
        ping=True,
        port=12,
        ping_port=13,
        is_routing_server=True,
        ack_hosts=("known", "far.example.org"),
    )


@pytest.mark.parametrize("milliseconds", [1, 19_999, 120_001])
def test_a_time_for_acknowledgments_that_the_protocol_does_not_have_is_refused(milliseconds: int) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(f"transfer.ack_wait_timeout_ms={milliseconds}")
    bound = ">= 20000" if milliseconds < 20_000 else "<= 120000"
    assert str(caught.value).endswith(f"invalid value of transfer.ack_wait_timeout_ms: expected int {bound}.")
    assert "the default is 20000" in caught.value.hint


@pytest.mark.parametrize("milliseconds", [20_000, 120_000])
def test_every_time_that_the_protocol_has_is_followed(milliseconds: int) -> None:
    settings = loaded(f"transfer.ack_wait_timeout_ms={milliseconds}").transfer.settings()
    assert in_ack_range(settings.ack_wait_timeout_ms) == milliseconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("any",)),
        ('ack_hosts = "known"', ("known",)),
        ('ack_hosts = "far, near"', ("far", "near")),
        ('ack_hosts = ["far", "known"]', ("far", "known")),
        ("ack_hosts = []", ()),
    ],
)
def test_the_hosts_of_acknowledgments_are_a_word_or_a_list(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    assert from_file(tmp_path, f"[transfer]\n{text}\n").transfer.settings().ack_hosts == words


def test_a_file_has_lists_and_dotted_keys(tmp_path: Path) -> None:
    config = from_file(tmp_path, 'transfer.resend_timeouts_s = [1, 2, 3, 4]\n[names]\naliases = ["a", "b"]\n')
    assert list(config.transfer.resend_timeouts_s) == [1, 2, 3, 4]
    assert config.names.aliases == ("a", "b")


def test_a_list_in_text_has_commas_and_may_be_empty() -> None:
    assert loaded("names.aliases=web, mail").names.aliases == ("web", "mail")
    assert loaded("names.aliases=").names.aliases == ()


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("transfer.windowsize", "transfer.window_size"),
        ("transfr.port", "transfer.port"),
        ("http.window_size", "transfer.window_size"),
        ("retry_connect_s", "transfer.retry_connect_s"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(path: str, nearest: str) -> None:
    error = complaint(f"{path}=1")
    assert f"unknown key {path}" in error.sentence
    assert error.hint == f"did you mean {nearest}?"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("# c\n[transfer]\n\nwindowsize = 5\n", "line 4"),
        ("transfer.windowsize = 5\n", "line 1"),
        ("[http]\nport = 1\n[transfer]\nwindowsize = 5\n", "line 4"),
    ],
)
def test_an_unknown_key_of_a_file_is_found_in_its_line(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=rf"waypost\.toml, {place}: unknown key transfer\.windowsize"):
        from_file(tmp_path, text)


def test_an_unknown_section_and_a_key_outside_of_one_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 2: unknown key transfers") as caught:
        from_file(tmp_path, "\n[transfers]\nport = 1\n")
    assert caught.value.hint == "did you mean transfer?"
    with pytest.raises(ConfigError, match="transfer is a section"):
        from_file(tmp_path, "transfer = 5\n")


def test_an_unknown_variable_of_one_of_our_sections_is_an_error_and_others_are_not_ours() -> None:
    error = complaint(environment={"WAYPOST_TRANSFER_WINDOWSIZE": "5"})
    assert "WAYPOST_TRANSFER_WINDOWSIZE" in error.sentence
    assert error.hint == "did you mean WAYPOST_TRANSFER_WINDOW_SIZE?"
    assert loaded(environment={"WAYPOST_URL": "http://x", "WAYPOST_TOKEN": "t", "HOME": "/"}) == loaded()


@pytest.mark.parametrize(
    "setting",
    [
        "transfer.port=many",
        "transfer.port=65536",
        "transfer.port=-1",
        "transfer.idle_timeout_s=0",
        "transfer.idle_timeout_s=nan",
        "transfer.idle_timeout_s=inf",
        "transfer.resend_timeouts_s=1,2,3",
        "transfer.ping=perhaps",
        "transfer.peer_port=0",
        "log.level=loud",
        "quotas.machine_kb=-1",
        "store.max_size_gb=0",
    ],
)
def test_a_wrong_value_is_one_sentence_that_says_where(setting: str) -> None:
    path, _, _ = setting.partition("=")
    error = complaint(setting)
    assert error.sentence.startswith(f"--set {setting}: invalid value of {path}: ")
    assert error.sentence.count("\n") == 0


def test_a_file_is_typed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 2: invalid value of transfer\.port: expected int, got str"):
        from_file(tmp_path, '[transfer]\nport = "1801"\n')


def test_a_file_that_is_missing_or_no_toml_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read .*none\.toml: No such file"):
        load(tmp_path / "none.toml", {}, {}, [])
    with pytest.raises(ConfigError, match=r"is not a valid TOML file: .*line 1"):
        from_file(tmp_path, "port: 5\n")
    (tmp_path / "latin.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "latin.toml", {}, {}, [])


def test_a_setting_without_a_value_is_an_error() -> None:
    assert complaint("transfer.port").hint == "write --set SECTION.KEY=VALUE."


@pytest.mark.parametrize("path", ["transfer.bind", "http.bind"])
def test_an_address_is_an_ip_address(path: str) -> None:
    assert "is not an IP address" in complaint(f"{path}=localhost").sentence


@pytest.mark.parametrize(
    ("bind", "http"),
    [("127.0.0.2", "127.0.0.2"), ("::1", "::1"), ("192.0.2.1", "127.0.0.1"), ("", "127.0.0.1")],
)
def test_http_follows_bind_on_loopback_only(bind: str, http: str) -> None:
    assert loaded(f"transfer.bind={bind}").http.bind == http


def test_http_beyond_loopback_demands_a_token_and_tls() -> None:
    outside, is_open = "http.bind=0.0.0.0", "http.access=open"
    assert "token" in complaint(outside, is_open).sentence
    assert "token" in complaint(outside, is_open, "http.allow_insecure=true").sentence
    # Otherwise the daemon makes a token at its first start.
    assert "TLS" in complaint(outside).sentence
    assert "TLS" in complaint(outside, "http.token=t").sentence
    assert loaded(outside, "http.allow_insecure=true").http.access == "token"
    assert "only one of http.tls_cert and http.tls_key" in complaint("http.tls_cert=c").sentence
    assert loaded(outside, "http.token=t", "http.allow_insecure=true").http.bind == "0.0.0.0"
    assert loaded(outside, "http.token=t", "http.tls_cert=c", "http.tls_key=k").http.tls_key == "k"
    assert loaded(outside, "http.enabled=false").http.enabled is False


def test_a_token_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert f"Cannot read {file}" in complaint(f"http.token_file={file}").sentence
    file.write_text(" \n", encoding="utf-8")
    assert "contains no token" in complaint(f"http.token_file={file}").sentence
    file.write_text("secret\n", encoding="utf-8")
    assert loaded(f"http.token_file={file}").http.token == "secret"
    assert "mutually exclusive" in complaint(f"http.token_file={file}", "http.token=t").sentence


def test_old_signatures_count_unless_the_setting_says_otherwise(tmp_path: Path) -> None:
    assert loaded().security.min_signature == "msmq10"
    assert loaded("security.min_signature=msmq20").security.min_signature == "msmq20"
    assert "security.min_signature" in complaint("security.min_signature=msmq30").sentence
    assert loaded().security.key_bits == 2048
    file = tmp_path / "passphrase"
    file.write_text("secret\n")
    assert loaded(f"security.key_passphrase_file={file}").security.key_passphrase == "secret"


def test_a_passphrase_comes_from_a_file_or_the_environment_alone(tmp_path: Path) -> None:
    variable = {"WAYPOST_SECURITY_KEY_PASSPHRASE": "secret"}
    assert loaded(environment=variable).security.key_passphrase == "secret"
    with pytest.raises(ConfigError) as in_file:
        from_file(tmp_path, '[security]\nkey_passphrase = "secret"\n')
    for found in (in_file.value, complaint("security.key_passphrase=secret")):
        assert "security.key_passphrase is accepted only from the environment" in found.sentence
        assert "WAYPOST_SECURITY_KEY_PASSPHRASE" in found.hint
        assert "security.key_passphrase_file" in found.hint
        assert "=secret" not in found.sentence + found.hint
    assert "line 2" in in_file.value.sentence


def test_a_daemon_with_a_passphrase_on_its_command_line_does_not_start(tmp_path: Path) -> None:
    words = ("serve", "--data", str(tmp_path / "data"), "--set", "security.key_passphrase=hunter2")
    found = CliRunner().invoke(app, words)
    assert found.exit_code != 0
    assert "--set security.key_passphrase: security.key_passphrase is accepted only from" in found.stderr
    assert "hunter2" not in found.stderr


def test_routes_lead_to_a_host_or_by_way_of_another() -> None:
    config = loaded(f"routing.routes={ONE}=10.0.0.1, {{{TWO}}}=via {ONE}")
    one, two = parse_guid(ONE), parse_guid(TWO)
    assert parse_routes(config.routing.routes) == (Route(one, host="10.0.0.1"), Route(two, via=one))


@pytest.mark.parametrize("route", ["nonsense", f"{ONE}=", "x=host", f"{ONE}=via nobody"])
def test_what_is_no_route_is_an_error(route: str) -> None:
    assert "is not a route" in complaint(f"routing.routes={route}").sentence


def test_relays_are_guids_or_addresses() -> None:
    config = loaded(f"routing.relays={ONE}, 10.0.0.1, {{{TWO}}}, ::ffff:10.0.0.2")
    expected = Relays(frozenset({parse_guid(ONE), parse_guid(TWO)}), frozenset({"10.0.0.1", "10.0.0.2"}))
    assert parse_relays(config.routing.relays) == expected


@pytest.mark.parametrize("relay", ["host", f"{ONE}x", "10.0.0.256"])
def test_what_is_no_relay_is_an_error(relay: str) -> None:
    found = complaint(f"routing.relays={relay}")
    assert relay in found.sentence
    assert "neither a GUID nor an IP address" in found.sentence


def test_addresses_of_acknowledgments_belong_to_a_queue_manager_or_to_all() -> None:
    settings = loaded(f"transfer.ack_addresses={ONE}=10.0.0.1, 10.0.0.2, {{{TWO}}} = FE80::1").transfer.settings()
    expected = {(parse_guid(ONE), "10.0.0.1"), (NULL_GUID, "10.0.0.2"), (parse_guid(TWO), "fe80::1")}
    assert settings.ack_addresses == expected


@pytest.mark.parametrize("address", ["host", f"{ONE}=host", "x=10.0.0.1", f"{ONE}="])
def test_what_is_no_address_of_acknowledgments_is_an_error(address: str) -> None:
    found = complaint(f"transfer.ack_addresses={address}")
    assert address in found.sentence
    assert "not an address" in found.sentence


def test_the_data_folder_does_not_depend_on_where_the_daemon_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert loaded().folder == Path("/state/waypost")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert loaded().folder == Path.home() / ".local/state/waypost"
    assert loaded("store.path=~/data").folder == Path.home() / "data"


@pytest.mark.parametrize("key", list(keys()), ids=lambda key: key.path)
def test_every_key_has_a_default_that_it_accepts_and_a_description(key: Key) -> None:
    assert key.description.endswith(".")
    assert asdict(SECTIONS[key.section]())[key.name] == key.default
