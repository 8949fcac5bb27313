"""The pages of the store's file: any bytes are a page or PageDamaged, and what LMDB writes is read as it is meant."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lmdb.verify import VerifyError, verify

from waypost.store.page_file import PageFile
from waypost.store.pages import (
    HEADER_SIZE,
    META_SIZE,
    OVERFLOW,
    Node,
    PageDamaged,
    branch_children,
    decode_meta,
    kind_of,
    leaf_nodes,
    loose_nodes,
    page_list,
    run_pages,
    value_of,
)
from waypost.store.walk import USED, Damage, Walked, Walker, check_metas

if TYPE_CHECKING:
    from collections.abc import Callable

HEADERS = st.builds(
    lambda flags, lower, upper, rest: (
        (5).to_bytes(8, "little")
        + b"\0\0"
        + flags.to_bytes(2, "little")
        + lower.to_bytes(2, "little")
        + upper.to_bytes(2, "little")
        + rest
    ),
    st.sampled_from([1, 2, 4, 8, 0x22, 0xFFFF]),
    st.integers(0, 300),
    st.integers(0, 300),
    st.binary(max_size=300),
)


@given(HEADERS | st.binary(max_size=META_SIZE + 10))
def test_any_bytes_are_a_page_or_damaged(data: bytes) -> None:
    decoders: list[Callable[[], object]] = [
        lambda: decode_meta(0, data),
        lambda: kind_of(5, data),
        lambda: leaf_nodes(5, data),
        lambda: branch_children(5, data),
        lambda: run_pages(5, data, 1),
    ]
    for decode in decoders:
        try:
            decode()
        except PageDamaged as error:
            assert str(error)
    for node in loose_nodes(data):
        assert len(node.key) <= len(data)
    page_list(data)


def test_the_entries_of_a_leaf_lie_inside_of_it() -> None:
    for node in loose_nodes(bytes(4096)) + loose_nodes(b"\xff" * 4096):
        assert node.at >= HEADER_SIZE


def fill(folder: Path, seed: int, transactions: int = 30) -> dict[str, dict[bytes, bytes]]:
    """A file of LMDB with tables in which much was written and deleted. Returns their content."""
    chance = random.Random(seed)
    tables: dict[str, dict[bytes, bytes]] = {"messages": {}, "queues": {}, "store": {}}
    with lmdb.open(str(folder), 1 << 26, max_dbs=4) as env:
        opened = {name: env.open_db(name.encode()) for name in tables}
        for _ in range(transactions):
            with env.begin(write=True) as transaction:
                for _ in range(chance.randrange(1, 200)):
                    name = chance.choice(["messages", "messages", "queues", "store"])
                    found, table = tables[name], opened[name]
                    if found and chance.random() < 0.4:
                        key = chance.choice(list(found))
                        del found[key]
                        transaction.delete(key, db=table)
                    else:
                        key = chance.randbytes(chance.randrange(1, 40))
                        found[key] = chance.randbytes(chance.choice([0, 10, 500, 1900, 2500, 20_000]))
                        transaction.put(key, found[key], db=table)
    return tables


def walk(folder: Path) -> tuple[list[Damage], Walked, dict[str, dict[bytes, bytes]]]:
    found: dict[str, dict[bytes, bytes]] = {}
    with PageFile(folder / "data.mdb") as file:

        def visit(name: str, _: int, page: bytes, nodes: list[Node]) -> None:
            found.setdefault(name, {}).update({node.key: value_of(file, node, page) for node in nodes})

        damage = check_metas(file, file.metas, file.damaged_metas)
        if file.newest is None:
            return damage, Walked(), found
        walked = Walker(file, file.newest, visit=visit).walk()
        return damage + walked.damage, walked, found


@pytest.mark.parametrize("seed", range(6))
def test_a_walk_sees_what_lmdb_has_written(seed: int, tmp_path: Path) -> None:
    tables = fill(tmp_path, seed)
    damage, walked, found = walk(tmp_path)
    assert damage == []
    assert walked.unused == 0
    assert {name: records for name, records in tables.items() if records} == found
    assert {name: walked.entries[name] for name in tables} == {name: len(records) for name, records in tables.items()}


def test_an_empty_file_of_lmdb_is_whole(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path)).close()
    damage, walked, found = walk(tmp_path)
    assert (damage, walked.unused, found) == ([], 0, {})


def test_whatever_the_verifier_of_lmdb_finds_is_found(tmp_path: Path) -> None:
    """Bits of pages that are in use. The verifier also complains of an older meta page, which nobody reads again."""
    fill(tmp_path, 7, 10)
    data = tmp_path / "data.mdb"
    whole = data.read_bytes()
    kinds = walk(tmp_path)[1].pages
    with PageFile(data) as file:
        pages = [
            number
            for number in range(2, file.count)
            if kinds[number] == USED and _is_node_page(number, file.page(number))
        ]
    chance = random.Random(7)
    found = missed = 0
    for _ in range(150):
        damaged = bytearray(whole)
        # Headers and offsets matter more than values.
        at = chance.choice(pages) * 4096 + (chance.randrange(64) if chance.random() < 0.7 else chance.randrange(4096))
        damaged[at] ^= 1 << chance.randrange(8)
        data.write_bytes(damaged)
        try:
            theirs = verify(str(tmp_path))  # type: ignore[no-untyped-call]
        except VerifyError as error:
            theirs = [error]
        ours = walk(tmp_path)[0]
        found += bool(theirs)
        missed += bool(theirs) and not ours
    assert found > 20
    assert missed == 0


def _is_node_page(number: int, page: bytes) -> bool:
    try:
        return kind_of(number, page) != OVERFLOW
    except PageDamaged:
        return False


@pytest.mark.parametrize("size", [0, 100, 4096, 5000, 8192, 12_288])
def test_a_file_that_is_cut_off_is_damaged(size: int, tmp_path: Path) -> None:
    fill(tmp_path, 3)
    data = tmp_path / "data.mdb"
    data.write_bytes(data.read_bytes()[:size])
    assert walk(tmp_path)[0]


def test_a_transaction_number_that_has_changed_is_found_whichever_bit_it_is(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    data = tmp_path / "data.mdb"
    whole = data.read_bytes()
    for page in (0, 1):
        for bit in range(64):
            damaged = bytearray(whole)
            damaged[page * 4096 + META_SIZE - 8 + bit // 8] ^= 1 << bit % 8
            data.write_bytes(damaged)
            assert walk(tmp_path)[0], (page, bit)


@pytest.mark.parametrize("destroyed", [(0,), (1,), (0, 1)])
def test_the_size_of_pages_is_found_without_meta_pages(destroyed: tuple[int, ...], tmp_path: Path) -> None:
    fill(tmp_path, 5)
    data = tmp_path / "data.mdb"
    damaged = bytearray(data.read_bytes())
    for page in destroyed:
        damaged[page * 4096 : (page + 1) * 4096] = bytes(4096)
    data.write_bytes(damaged)
    with PageFile(data) as file:
        assert file.page_size == 4096
        assert set(file.metas) == {0, 1} - set(destroyed)
