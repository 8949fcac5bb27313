"""The file of a store, read page by page without LMDB.

Pages are read into memory, and not mapped: a file that is too short, or shrinks meanwhile, is an error and never a
signal that ends the process. Nothing here can be brought to an abort by what the file holds.
"""

import os
from pathlib import Path
from typing import Final, Self

from waypost.store.pages import FIRST_PAGE, HEADER_SIZE, META_SIZE, PAGE_SIZES, Meta, PageDamaged, decode_meta

# Pages that are looked at to find out how large pages are.
_SAMPLE: Final = 512
_BLOCK: Final = 1 << 20


class PageFile:
    """See waypost.store.pages.PageSource. A context manager that closes."""

    def __init__(self, path: str | Path) -> None:
        """Raises OSError."""
        self.path: Final = Path(path)
        self._file: Final = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self.size: Final = os.fstat(self._file).st_size
        # The meta pages that are whole, by their numbers, and what is wrong with the others.
        self.metas: dict[int, Meta] = {}
        self.damaged_metas: list[PageDamaged] = []
        self.page_size = PAGE_SIZES[0]
        try:
            self._read_metas()
        except BaseException:
            self.close()
            raise
        self.count = self.size // self.page_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._file)

    @property
    def newest(self) -> Meta | None:
        """The moment that LMDB would open."""
        return max(self.metas.values(), key=lambda meta: meta.transaction, default=None)

    def page(self, number: int) -> bytes:
        return self.read(number, self.page_size)

    def read(self, number: int, size: int) -> bytes:
        start = number * self.page_size
        if start + size > self.size:
            raise PageDamaged(number, "is after the end of the file")
        try:
            data = self._pread(size, start)
        except OSError as error:
            raise PageDamaged(number, f"is unreadable: {error.strerror}") from error
        if len(data) < size:
            raise PageDamaged(number, "is after the end of the file")
        return data

    def _pread(self, size: int, start: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._file, size, start)
        os.lseek(self._file, start, os.SEEK_SET)
        return os.read(self._file, size)

    def _read_metas(self) -> None:
        """The first says how large a page is; without it the second is looked for at every place it can have."""
        try:
            self.metas[0] = decode_meta(0, self._pread(META_SIZE, 0))
            self.page_size = self.metas[0].page_size
        except PageDamaged as error:
            self.damaged_metas.append(error)
            for size in PAGE_SIZES:
                second = self._pread(META_SIZE, size)
                if len(second) == META_SIZE and _has_size(second, size):
                    self.page_size = size
                    break
            else:
                self.page_size = self._guess()
        try:
            meta = decode_meta(1, self._pread(META_SIZE, self.page_size))
            if meta.page_size != self.page_size:
                raise PageDamaged(1, f"contains the wrong page size {meta.page_size}")
            self.metas[1] = meta
        except PageDamaged as error:
            self.damaged_metas.append(error)

    def _guess(self) -> int:
        """The size with which most pages have the number of their place."""
        return max(PAGE_SIZES, key=lambda size: (self._numbered(size) * size, -size))

    def _numbered(self, page_size: int) -> int:
        last = min(self.size // page_size, FIRST_PAGE + _SAMPLE)
        numbers = range(FIRST_PAGE, last)
        headers = (self._pread(HEADER_SIZE, number * page_size) for number in numbers)
        return sum(
            int.from_bytes(header[:8], "little") == number for number, header in zip(numbers, headers, strict=True)
        )


def _has_size(data: bytes, size: int) -> bool:
    try:
        return decode_meta(1, data).page_size == size
    except PageDamaged:
        return False
