"""Texts for people are plain English: tools/words.py finds the patterns that made readers stumble."""

from pathlib import Path

import pytest

from tools import words


def test_every_text_of_the_project_keeps_the_rules() -> None:
    assert [str(each) for each in words.findings(words.project())] == []


@pytest.mark.parametrize(
    "text",
    [
        "what answers at URL is no Waypost daemon",
        "The queue cannot be opened.",
        "Every queue that there is.",
        "Messages are sent to it in transactions. This is for ever.",
        "The index is made anew.",
        "Name of the computer, that of the host unless given.",
        "The report tells how many there were.",
        "Sent thrice.",
        "A daemon with a port of its own.",
        "Look at letters that were parked.",
        "It becomes a dead letter.",
        "What messages may take in all.",
        "Who may read. How many are sent.",
        "A first paragraph.\n\nWhich of them is read.",
    ],
)
def test_a_sentence_that_breaks_a_rule_is_found(text: str) -> None:
    assert list(words.judged(text))


@pytest.mark.parametrize(
    "text",
    [
        "URL is not a Waypost daemon",
        "Create a transactional queue. Cannot be changed later.",
        "Letters and digits. Capital letters. Letters, digits and hyphens.",
        "The dead-letter queue holds dead-letter messages.",
        "The lease is no longer valid.",
        "What is stuck? Who sent it?",
        "How to upgrade",
    ],
)
def test_a_plain_sentence_is_not(text: str) -> None:
    assert list(words.judged(text)) == []


def test_docstrings_comments_and_literals_of_python_are_read(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""What it is."""\n\n# Which are\n# others.\nVALUE = f"{1} is no " "queue"\nname_is_no_text = "is_no"\n'
    )
    assert sorted(line for line, text in words.texts(path) if list(words.judged(text))) == [1, 3, 5]


def test_code_and_addresses_in_documents_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "# Page\n\nA `is no` and a [link](what-is-no.md).\n\n```sh\nit is no text\n```\n\n- Which is read.\n"
    )
    assert [line for line, text in words.texts(path) if list(words.judged(text))] == [9]
