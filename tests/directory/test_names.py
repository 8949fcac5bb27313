"""Get Queue Path (MS-MQDMPR 3.1.7.1.26) and Expand Format Name (3.1.7.3.8)."""

import pytest

from tests.directory.rig import ME, SOMEBODY, Rig, guid
from waypost.directory.names import QueuePath, expand_format_name, get_queue_path
from waypost.directory.objects import Queue, QueueManager
from waypost.errors import IllegalFormatName, UnsupportedFormatName
from waypost.guid import guid_text
from waypost.limits import MAX_MQF_ELEMENTS
from waypost.wire.format_names import DistributionListFormatName, FormatName, MultipleElementFormatName
from waypost.wire.path_names import QueueKind

MINE = Queue(
    identifier=guid(2), pathname="host\\private$\\mine", private_queue_number=5, queue_type=QueueKind.PRIVATE
)  # fmt: skip


def path(rig: Rig, text: str) -> QueuePath:
    return get_queue_path(rig.events, FormatName.parse(text), rig.now)


@pytest.mark.spec("MQDMPR-3.1.7.1.26-01")
@pytest.mark.parametrize(
    ("name", "path_name", "machine_name"),
    [
        ("DIRECT=OS:box\\private$\\q", "box\\PRIVATE$\\q", "box"),
        ("DIRECT=TCP:10.0.0.1\\orders;JOURNAL", "10.0.0.1\\orders;JOURNAL", "10.0.0.1"),
        ("DIRECT=OS:box.example.org\\private$\\q;sub", "box.example.org\\PRIVATE$\\q;sub", "box.example.org"),
        ("DIRECT=HTTP://web.example.org:8080/msmq/private$/q", "", "web.example.org"),
        ("DIRECT=HTTPS://web.example.org/msmq/q", "", "web.example.org"),
    ],
)
def test_a_direct_name_tells_its_machine_and_its_path(name: str, path_name: str, machine_name: str) -> None:
    assert path(Rig(), name) == QueuePath(path_name, machine_name)


@pytest.mark.spec("MQDMPR-3.1.7.1.26-02")
def test_a_public_name_is_read_from_the_directory() -> None:
    rig = Rig()
    rig.put(Queue(identifier=guid(1), pathname="box\\orders"))
    assert path(rig, f"PUBLIC={guid_text(guid(1))}") == QueuePath("box\\orders", "box")
    workgroup = Rig(integrated=False)
    workgroup.queues = [Queue(identifier=guid(1), pathname="host\\orders")]
    assert path(workgroup, f"PUBLIC={guid_text(guid(1))}") == QueuePath("host\\orders", "host")


@pytest.mark.spec("MQDMPR-3.1.7.1.26-03")
def test_a_public_name_that_nobody_knows_is_an_illegal_name() -> None:
    for rig in (Rig(), Rig(integrated=False)):
        with pytest.raises(IllegalFormatName) as caught:
            path(rig, f"PUBLIC={guid_text(guid(1))}")
        assert caught.value.hresult == 0xC00E001E


@pytest.mark.spec("MQDMPR-3.1.7.1.26-04")
def test_a_private_name_tells_the_computer_and_the_path_of_a_local_queue() -> None:
    rig = Rig()
    rig.queues = [Queue(pathname="host\\public", private_queue_number=5), MINE]
    rig.put(QueueManager(identifier=SOMEBODY, computer_name="other"))
    assert path(rig, f"PRIVATE={guid_text(ME)}\\5") == QueuePath("host\\private$\\mine", "host")
    assert path(rig, f"PRIVATE={guid_text(SOMEBODY)}\\5") == QueuePath("", "other")
    # A local name needs no directory (readings MQDMPR 3.W).
    workgroup = Rig(integrated=False)
    workgroup.queues = [MINE]
    assert path(workgroup, f"PRIVATE={guid_text(ME)}\\5") == QueuePath("host\\private$\\mine", "host")


@pytest.mark.spec("MQDMPR-3.1.7.1.26-05")
def test_a_private_name_of_an_unknown_computer_is_illegal_and_other_names_have_no_path() -> None:
    for rig in (Rig(), Rig(integrated=False)):
        with pytest.raises(IllegalFormatName) as caught:
            path(rig, f"PRIVATE={guid_text(SOMEBODY)}\\5")
        assert caught.value.hresult == 0xC00E001E
        assert path(rig, f"PRIVATE={guid_text(ME)}\\6") == QueuePath("", "host")
        for name in (f"MACHINE={guid_text(ME)};DEADLETTER", "MULTICAST=234.1.1.1:8001", f"DL={guid_text(guid(1))}"):
            assert path(rig, name) == QueuePath("", "")


class Lists:
    """Distribution lists by number, and how often each was asked for."""

    def __init__(self, **members: str) -> None:
        self.members = {guid(int(number[1:])): text for number, text in members.items()}
        self.asked: list[bytes] = []

    def __call__(self, name: DistributionListFormatName) -> tuple[FormatName, ...] | None:
        self.asked.append(name.guid)
        if name.guid not in self.members:
            return None
        texts = self.members[name.guid].split()
        return tuple(FormatName.parse(dl(int(text)) if text.isdigit() else f"DIRECT=OS:{text}\\q") for text in texts)


def dl(number: int) -> str:
    return f"DL={guid_text(guid(number))}"


def expanded(text: str, lists: Lists) -> str:
    return str(expand_format_name(FormatName.parse(text), lists))


@pytest.mark.spec("MQDMPR-3.1.7.3.8-01")
@pytest.mark.parametrize(
    "text",
    [
        "DIRECT=OS:box\\q",
        f"PUBLIC={guid_text(guid(1))}",
        f"PRIVATE={guid_text(ME)}\\00000005",
        "MULTICAST=234.1.1.1:8001",
    ],
)
def test_a_single_name_stays_as_it_is(text: str) -> None:
    name = FormatName.parse(text)
    assert expand_format_name(name, Lists()) is name


@pytest.mark.spec("MQDMPR-3.1.7.3.8-02")
def test_lists_in_lists_are_replaced_until_none_remains() -> None:
    lists = Lists(n1="b 2", n2="a 3", n3="c 4", n4="d")
    assert expanded(dl(1), lists) == "DIRECT=OS:a\\q,DIRECT=OS:b\\q,DIRECT=OS:c\\q,DIRECT=OS:d\\q"
    assert expanded(f"DIRECT=OS:z\\q,{dl(4)}", lists) == "DIRECT=OS:d\\q,DIRECT=OS:z\\q"


def test_lists_may_contain_each_other_and_are_asked_for_once() -> None:
    lists = Lists(n1="a 2 1", n2="b 1 2")
    assert expanded(f"{dl(1)},{dl(2)}", lists) == "DIRECT=OS:a\\q,DIRECT=OS:b\\q"
    assert lists.asked == [guid(1), guid(2)]


@pytest.mark.spec("MQDMPR-3.1.7.3.8-03")
def test_a_list_that_cannot_be_resolved_fails_the_whole_name() -> None:
    for text in (dl(9), f"DIRECT=OS:a\\q,{dl(9)}", dl(1)):
        with pytest.raises(UnsupportedFormatName, match="cannot resolve "):
            expanded(text, Lists(n1="a 9"))


@pytest.mark.spec("MQDMPR-3.1.7.3.8-04")
def test_elements_are_sorted_without_regard_to_case_and_equal_ones_become_one() -> None:
    lists = Lists(n1="beta ALPHA alpha Gamma", n2="BETA delta")
    name = expand_format_name(FormatName.parse(f"{dl(1)},{dl(2)},DIRECT=os:GAMMA\\Q"), lists)
    assert isinstance(name, MultipleElementFormatName)
    assert [str(each).lower() for each in name.elements] == [
        f"direct=os:{host}\\q" for host in ("alpha", "beta", "delta", "gamma")
    ]
    # The letters are those of the one that came first.
    assert str(name.elements[0]) == "DIRECT=OS:ALPHA\\q"


@pytest.mark.spec("MQDMPR-3.1.7.3.8-05")
def test_one_element_is_a_single_name_and_several_are_joined_with_commas() -> None:
    lists = Lists(n1="a A", n2="a b")
    single = expand_format_name(FormatName.parse(dl(1)), lists)
    assert not isinstance(single, MultipleElementFormatName)
    assert str(single) == "DIRECT=OS:a\\q"
    assert expanded("DIRECT=OS:a\\q,DIRECT=OS:A\\q", lists) == "DIRECT=OS:a\\q"
    assert expanded(dl(2), lists) == "DIRECT=OS:a\\q,DIRECT=OS:b\\q"


def test_a_list_without_a_queue_fails() -> None:
    with pytest.raises(UnsupportedFormatName, match="no queue"):
        expanded(dl(1), Lists(n1="2", n2="1"))


def test_too_many_queues_fail() -> None:
    hosts = " ".join(f"h{number}" for number in range(MAX_MQF_ELEMENTS))
    with pytest.raises(UnsupportedFormatName, match="more than"):
        expanded(dl(1), Lists(n1=hosts))
