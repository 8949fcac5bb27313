"""The requests that docs/http.md shows get the answers that it shows, one after the other."""

import json
import re
from pathlib import Path
from typing import Any

from tests.http.server import Api, served

PAGE = Path(__file__).parents[2] / "docs/http.md"
BLOCK = re.compile(r"^```http\n(\w+) (\S+)\n(.*?)\n?\n(\d{3})\n(.*?)```$", re.MULTILINE | re.DOTALL)
NAME = re.compile("<[a-z]+>")
ANYTHING = "..."


def check(shown: Any, found: Any, values: dict[str, str]) -> None:
    """Compares what is shown with what there is, and learns the values of names."""
    match shown:
        case str() if shown.startswith("<"):
            values[shown] = found
        case dict():
            assert shown.keys() - {ANYTHING} <= found.keys()
            assert ANYTHING in shown or shown.keys() == found.keys()
            for key in shown.keys() - {ANYTHING}:
                check(shown[key], found[key], values)
        case list() if shown != [ANYTHING]:
            assert len(shown) == len(found)
            for each, other in zip(shown, found, strict=True):
                check(each, other, values)
        case _:
            assert shown in (found, ANYTHING, [ANYTHING])


def test_the_page_has_blocks_to_check() -> None:
    assert len(BLOCK.findall(PAGE.read_text("utf-8"))) == PAGE.read_text("utf-8").count("```http\n") > 10


@served()
async def test_the_page_tells_the_truth(api: Api) -> None:
    values: dict[str, str] = {}
    for method, shown_path, shown_body, status, shown in BLOCK.findall(PAGE.read_text("utf-8")):
        path, body = (NAME.sub(lambda name: values[name[0]], text) for text in (shown_path, shown_body))
        content: Any = {"content": body, "headers": {"content-type": "application/json"}} if body else {}
        response = await api.client.request(method, path, **content)
        assert response.status_code == int(status), (path, response.text)
        if shown:
            check(json.loads(shown), response.json(), values)
