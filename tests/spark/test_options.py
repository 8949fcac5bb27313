"""Options of format("msmq"): their meaning, and the error for each wrong one."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from waypost.api import defaults
from waypost.arrow.choice import Choice
from waypost.arrow.packets import OnMalformed
from waypost.errors import InvalidParameter
from waypost.spark.options import Rate, Split, read_options, schema_options, write_options


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAYPOST_URL", "WAYPOST_TOKEN", "WAYPOST_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def refusal(**given: str) -> str:
    with pytest.raises(InvalidParameter) as error:
        read_options({"queue": "orders", **given})
    return str(error.value)


def test_a_queue_is_all_that_has_to_be_said() -> None:
    options = read_options({"queue": "orders"})
    assert options.endpoint.kind == "daemon"
    assert options.endpoint.address == defaults.URL
    assert options.queues == ("orders",)
    assert (options.start, options.end, options.mode) == ("earliest", "latest", "peek")
    assert options.fail_on_data_loss is False


def test_names_of_options_have_no_case() -> None:
    assert read_options({"QUEUE": "orders", "MaxMessagesPerTrigger": "5"}).rate == Rate(max_messages=5)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://10.0.0.1:81", "http://10.0.0.1:81"),
        ("https://queues.example", "https://queues.example"),
        ("queues.example", "http://queues.example:8181"),
        ("queues.example:99", "http://queues.example:99"),
        ("[::1]", "http://[::1]:8181"),
        ("[::1]:99", "http://[::1]:99"),
    ],
)
def test_a_server_is_a_url_or_a_host_with_or_without_a_port(given: str, url: str) -> None:
    assert read_options({"queue": "orders", "server": given}).endpoint.address == url
    assert read_options({"queue": "orders", "host": given}).endpoint.address == url


def test_the_environment_names_the_daemon_and_its_token_like_for_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYPOST_URL", "http://127.0.0.9:1")
    monkeypatch.setenv("WAYPOST_TOKEN", "hidden")
    place = read_options({"queue": "orders"}).endpoint
    assert (place.address, place.secret) == ("http://127.0.0.9:1", "hidden")


def test_a_token_comes_from_a_file_before_the_session_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYPOST_TOKEN", "of the environment")
    file = tmp_path / "token"
    file.write_text("of-the-file\n", encoding="utf-8")
    assert read_options({"queue": "q", "tokenFile": str(file)}, "of the session").endpoint.secret == "of-the-file"
    assert read_options({"queue": "q"}, "of the session").endpoint.secret == "of the session"


def test_a_secret_stands_in_no_text_of_the_options() -> None:
    options = read_options({"queue": "orders"}, "s3cr3t")
    assert "s3cr3t" not in repr(options)
    assert "s3cr3t" not in str(options.endpoint)


def test_a_token_as_an_option_is_refused_without_being_repeated() -> None:
    sentence = refusal(token="s3cr3t")
    assert "tokenFile" in sentence
    assert "WAYPOST_TOKEN" in sentence
    assert "s3cr3t" not in sentence


@pytest.mark.parametrize(
    ("given", "queues"),
    [
        ({"queue": r"DIRECT=OS:host\private$\a"}, (r"DIRECT=OS:host\private$\a",)),
        ({"queues": r"orders, DIRECT=OS:host\private$\a"}, ("orders", r"DIRECT=OS:host\private$\a")),
        ({"queue": "orders", "queueType": "journal"}, ("orders;journal",)),
        ({"queue": "orders;journal", "queueType": "journal"}, ("orders;journal",)),
        ({"queueType": "journal"}, ("system$;journal",)),
        ({"queueType": "deadletter"}, ("system$;deadletter",)),
        ({"queueType": "xactDeadLetter"}, ("system$;deadxact",)),
    ],
)
def test_queues_are_chosen_by_name_and_type(given: dict[str, str], queues: tuple[str, ...]) -> None:
    assert read_options(given).queues == queues


@pytest.mark.parametrize(
    ("given", "fails"),
    [
        ({"queue": "orders"}, False),
        ({"queue": "orders;journal"}, True),
        ({"queue": "system$;deadxact"}, True),
        ({"queues": "system$;deadletter,system$;deadxact"}, True),
        ({"queue": "acks", "queueType": "admin"}, True),
        ({"queue": "orders", "queueType": "outgoing"}, False),
        ({"queue": "orders", "mode": "claim"}, True),
        ({"queue": "orders;journal", "failOnDataLoss": "false"}, False),
    ],
)
def test_missing_messages_are_an_error_where_nobody_should_take_any(given: dict[str, str], fails: object) -> None:
    assert read_options(given).fail_on_data_loss is fails


def test_positions_are_words_numbers_or_times() -> None:
    given = {"queue": "orders", "startingOffsets": '{"orders": {"seq": 7, "epoch": "x"}, "b": 9}'}
    assert read_options(given).start == {"orders": 7, "b": 9}
    assert read_options({"queue": "o", "startingTimestamp": "2026-03-01T08:00:00Z"}).start == datetime(
        2026, 3, 1, 8, tzinfo=UTC
    )
    assert read_options({"queue": "o", "endingTimestamp": "1500"}).end == datetime.fromtimestamp(1.5, UTC)
    assert read_options({"queue": "o", "startingOffsets": "Latest"}).start == "latest"


def test_everything_else_is_read() -> None:
    options = read_options(
        {
            "queue": "orders",
            "maxMessagesPerTrigger": "1000",
            "maxBytesPerTrigger": "64m",
            "minMessagesPerTrigger": "10",
            "maxTriggerDelay": "15m",
            "minPartitions": "3",
            "maxMessagesPerPartition": "500",
            "includeBody": "false",
            "includePacket": "TRUE",
            "decodeBody": "true",
            "maxBodyBytes": "1k",
            "onMalformed": "quarantine",
            "mode": "claim",
            "claimLease": "2h",
            "claimMaxAborts": "0",
            "includeHeaders": "true",
        }
    )
    assert options.rate == Rate(1000, 64 << 20, 10, 900.0)
    assert options.split == Split(3, 500)
    assert read_options({"queue": "q", "maxBytesPerPartition": "1m"}).split == Split(max_bytes=1 << 20)
    assert options.columns.include_headers
    assert options.columns.max_body_bytes == 1024
    assert options.columns.on_malformed is OnMalformed.QUARANTINE
    assert (options.columns.include_body, options.columns.include_packet, options.columns.decode_body) == (
        False,
        True,
        True,
    )
    assert (options.endpoint.lease_s, options.endpoint.max_aborts) == (7200.0, 0)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("mode", "steal", "peek, drain, claim"),
        ("queueType", "dead", "xactdeadletter"),
        ("onMalformed", "skip", "fail, null, quarantine"),
        ("lockedMessages", "steal", "wait, skip"),
        ("maxMessagesPerTrigger", "0", "of at least 1"),
        ("maxMessagesPerTrigger", "many", "of at least 1"),
        ("claimMaxAborts", "-1", "of at least 0"),
        ("maxBytesPerTrigger", "1 parsec", "64m"),
        ("claimLease", "soon", "15m"),
        ("includeBody", "yes", "true or false"),
        ("startingOffsets", "[1]", "`earliest`, `latest` or JSON"),
        ("startingOffsets", "{", "`earliest`, `latest` or JSON"),
        ("startingTimestamp", "yesterday", "2026-03-01T08:00:00Z"),
        ("endingTimestamp", "9" * 30, "milliseconds since 1970"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    sentence = refusal(**{name: value})
    assert f"the option `{name}`" in sentence
    assert repr(value)[:40] in sentence
    assert allowed in sentence


def test_a_place_that_is_no_number_is_refused_with_its_queue() -> None:
    assert "'orders'" in refusal(startingOffsets='{"orders": -3}')


def test_the_ends_of_queues_have_the_numbers_of_kafka_in_numbers_and_in_times() -> None:
    given = {"queues": "a,b,c", "startingOffsets": '{"a": -1, "b": -2, "c": 7}'}
    assert read_options(given).start == {"a": "latest", "b": "earliest", "c": 7}
    times = read_options({"queues": "a,b", "startingOffsetsByTimestamp": '{"a": 1500, "b": -1}'})
    assert times.start == {"a": datetime.fromtimestamp(1.5, UTC), "b": "latest"}
    assert "the option `endingOffsetsByTimestamp` for the queue `a` must be a time" in refusal(
        endingOffsetsByTimestamp='{"a": "soon"}'
    )


def test_options_of_kafka_are_understood_or_name_their_replacement() -> None:
    options = read_options(
        {"subscribe": "a,b", "maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "2", "maxRecordsPerPartition": "3"}
    )
    assert options.queues == ("a", "b")
    assert options.rate == Rate(9, None, 2)
    assert options.split == Split(max_messages=3)
    assert "`maxOffsetsPerTrigger` have the same meaning" in refusal(
        maxOffsetsPerTrigger="9", maxMessagesPerTrigger="9"
    )
    assert "use the option `queuePattern`, in which * stands for any characters and ? for one" in refusal(
        subscribePattern="a.*"
    )
    assert "use `server` for the address of the daemon" in refusal(**{"kafka.bootstrap.servers": "x"})
    for name in ("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"):
        assert f"the option `{name}` belongs to Kafka; remove it" in refusal(**{name: "1"})


def test_the_error_for_a_position_names_the_option_that_set_it() -> None:
    assert "remove the option `startingTimestamp`" in refusal(mode="drain", startingTimestamp="2026-03-01")
    assert "`startingOffsets` must be `earliest`" in refusal(mode="claim", startingOffsets="latest")
    given = read_options({"queue": "a", "startingOffsetsByTimestamp": '{"a": 1}', "endingTimestamp": "2026-03-01"})
    assert (given.start_option, given.end_option) == ("startingOffsetsByTimestamp", "endingTimestamp")


def test_a_path_names_the_queue_unless_it_is_the_place_of_a_table() -> None:
    assert read_options({"path": "orders"}).queues == ("orders",)
    assert read_options({"paths": '["orders", "returns"]'}).queues == ("orders", "returns")
    assert write_options({"path": "orders"}).queue == "orders"
    assert "named twice: by the option `queue` and by the path 'b'" in refusal(path="b")
    table = {"provider": "msmq", "owner": "me", "path": "file:/x", "location": "file:/x", "option.queue": "q"}
    assert schema_options({**table, "queue": "q", "decodeBody": "true"}).decode_body
    assert "unknown option 'owner'" in refusal(owner="me")


def test_messages_and_columns_are_chosen_by_options() -> None:
    options = read_options(
        {"queue": "a", "columns": "seq, label", "classes": "normal,0x4000,32768", "labelPattern": "a*"}
    )
    assert options.columns.names == ("seq", "label")
    assert options.columns.choice == Choice(frozenset({0, 0x4000, 0x8000}), "a*")
    assert "the options `columns` and `decodeBody` are mutually exclusive" in refusal(columns="seq", decodeBody="true")
    assert "`mode` must be `peek`" in refusal(mode="drain", classes="normal")
    assert "nack_q_deleted" in refusal(classes="wrong")
    assert "startingTimestamp" in refusal(pushdown="true")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"serverr": "x"}, "did you mean `server`?"),
        ({"maxmesagespertrigger": "1"}, "did you mean `maxMessagesPerTrigger`?"),
        ({"bootstrap": "x"}, "unknown option 'bootstrap'"),
        ({"server": "a", "msmqHost": "b"}, "`server` and `msmqHost` are mutually exclusive; use only one"),
        ({"store": "/data"}, "run `waypost serve` on the folder, and set the option `server`"),
        ({"queues": "b"}, "`queue` and `queues` are mutually exclusive: both options select queues"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "are mutually exclusive"),
        ({"minMessagesPerTrigger": "9", "maxMessagesPerTrigger": "5"}, "is 9, but must be at most 5"),
        ({"mode": "drain", "startingOffsets": "latest"}, "`startingOffsets` must be `earliest`"),
        ({"mode": "drain", "lockedMessages": "skip"}, "the option `lockedMessages` must be `wait`"),
        ({"queueType": "deadletter"}, "remove the option `queueType` or the option `queue`"),
        ({"server": " "}, "the option `server` is empty"),
        ({"server": "ftp://x"}, "http://127.0.0.1:8181"),
        ({"tokenFile": "/nowhere/token"}, "the file of the option `tokenFile`: No such file or directory"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, str], words: str) -> None:
    assert words in refusal(**given)


@pytest.mark.parametrize(
    ("queues", "words"),
    [("a,,b", "a list of non-empty names"), ("a,b,A", "twice"), (",", "a list of non-empty names")],
)
def test_a_list_of_queues_has_no_holes_and_no_doubles(queues: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        read_options({"queues": queues})


def test_no_queue_is_refused_with_the_ways_to_name_one() -> None:
    with pytest.raises(InvalidParameter, match="queue, queues, queuePattern"):
        read_options({"mode": "peek"})


def test_no_option_at_all_is_refused_with_what_spark_drops() -> None:
    for read in (read_options, write_options):
        with pytest.raises(InvalidParameter, match=r"INSERT INTO t WITH \(queue"):
            read({})


RUN = "6f3c9a50-0000-4000-8000-0123456789ab"


def test_writes_are_exactly_once_under_a_name_of_their_own_unless_told_otherwise() -> None:
    options = write_options({"queue": "orders", "checkpointLocation": "/tmp/x"})
    assert options.delivery == "exactly-once"
    assert options.transaction == ""
    assert options.anonymous != write_options({"queue": "orders"}).anonymous
    given = {"queue": "orders", "txnId": "import-7", "runId": RUN, "delivery": "exactly-once", "stageLease": "6h"}
    named = write_options(given)
    assert (options.lease_s, named.lease_s) == (3600, 6 * 3600)
    assert (named.transaction, named.delivery) == ("import-7", "exactly-once")
    assert (options.run, named.run) == ("", RUN)
    assert (options.on_invalid, options.quota_wait_s, options.version) == ("fail", 600, None)
    given = {"queue": "q", "txnAppId": "etl", "txnVersion": "0", "onInvalid": "deadletter", "quotaWait": "90s"}
    versioned = write_options(given)
    assert (versioned.transaction, versioned.version) == ("etl", 0)
    assert (versioned.on_invalid, versioned.quota_wait_s) == ("deadletter", 90)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"msmqHost": "win"}, "use the option `server` instead of `msmqHost`"),
        ({"queues": "a,b"}, "the option `queues` is only for reads"),
        ({"txnAppId": "a"}, "the options `txnAppId` and `txnVersion` must be set together; set both, or neither"),
        ({"txnVersion": "1"}, "the options `txnAppId` and `txnVersion` must be set together; set both, or neither"),
        ({"txnId": "a", "txnAppId": "a", "txnVersion": "1"}, "`txnId` and `txnAppId` are mutually exclusive"),
        (
            {"txnId": "a", "delivery": "at-least-once"},
            "the option `txnId` requires exactly-once delivery, but the option `delivery` is",
        ),
        (
            {"txnAppId": "a", "txnVersion": "1", "delivery": "at-least-once"},
            "the option `txnAppId` requires exactly-once delivery, but the option `delivery`",
        ),
        ({"onInvalid": "ignore"}, "onInvalid"),
        ({"queue": "a", "delivery": "maybe"}, "exactly-once, at-least-once"),
        ({"queue": "a", "runId": "nightly"}, "the option `runId` must be a GUID, .* not .nightly."),
    ],
)
def test_what_cannot_be_written_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        write_options(given)
