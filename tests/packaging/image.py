"""The image of packaging/Dockerfile without an engine: its steps carried out in a folder, and its head as typed.

A folder stands for the root of the image. The steps are adapted mechanically: a path such as /opt/waypost is one below
the folder, `python` is the Python of whoever builds, all stages share the folder, and no user is made. The commands of
the head are run by a shell that finds tests/packaging/docker.py as `docker`.

`python -m tests.packaging` does it with packages from the index; the tests take those that are installed.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
DOCKERFILE: Final = ROOT / "packaging/Dockerfile"
SECONDS: Final = 60
BUILD_SECONDS: Final = 600

# The image's own files; everything else is that of the computer.
_OWN: Final = re.compile(r"(?<![\w.-])/(?=(?:opt|source|var/lib|run/secrets|etc/waypost)\b)")
_STUBS: Final = {
    # The user who builds owns the files.
    "install": 'for word do shift; case $word in -[og]) skip=1;; *) [ -z "$skip" ] && set -- "$@" "$word"; skip=;; '
    'esac; done\nexec /usr/bin/env -i PATH=/usr/bin:/bin install "$@"',
    "useradd": "exit 0",
    "sudo": "exit 0",
    "python": f'exec {getattr(sys, "_base_executable", sys.executable)} "$@"',
    "docker": f'PYTHONPATH={ROOT} exec {sys.executable} -m tests.packaging.docker "$@"',
}


class Image(msgspec.Struct, frozen=True):
    """The parts of a container. Paths are those of the computer."""

    root: str
    environment: dict[str, str]
    entrypoint: list[str]
    healthcheck: list[str]

    @property
    def file(self) -> Path:
        return Path(self.root, "image.json")


@dataclass(slots=True)
class Stage:
    """The effects of the steps so far."""

    root: Path
    context: Path
    environment: dict[str, str]
    folder: Path = field(init=False)
    variables: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.root

    def workdir(self, text: str) -> None:
        self.folder = Path(rooted(text, self.root))
        self.folder.mkdir(parents=True, exist_ok=True)

    def copy(self, text: str) -> None:
        *sources, target = text.split()
        if sources[0].startswith("--from="):
            # It is there already, but has to be.
            assert sources[1:] == [target], f"COPY {text}: another stage has it at another place"
            assert Path(rooted(target, self.root)).exists(), f"COPY {text}: the stage did not make it"
            return
        for source in sources:
            into = self.folder / target
            files = list(context_files(self.context, source))
            assert files, f"COPY {text}: the context has no {source}"
            for path in files:
                is_file = (self.context / source).is_file()
                place = into / path.name if is_file else into / path.relative_to(self.context / source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place)

    def run(self, text: str) -> None:
        environment = self.environment | self.variables
        subprocess.run(
            ["sh", "-c", rooted(text, self.root)], cwd=self.folder, env=environment, check=True, timeout=BUILD_SECONDS
        )

    def env(self, text: str) -> None:
        for word in text.split():
            name, _, value = word.partition("=")
            self.variables[name] = rooted(value, self.root).replace("$PATH", _path(self.root))


def build(root: Path, environment: Mapping[str, str], lent: Mapping[str, str]) -> Image:
    """Carry out the Dockerfile. RUN sees this environment; containers see what is lent to them besides their own."""
    for name, text in _STUBS.items():
        program = root / "usr/local/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
    stage = None
    steps = list(instructions(DOCKERFILE.read_text(encoding="utf-8")))
    for at, (name, text) in enumerate(steps):
        if name == "FROM":
            _forget(root, [rest.split()[-1] for step, rest in steps[at:] if step == "COPY" and "--from=" in rest])
            stage = Stage(root, ROOT, {**environment, "PATH": _path(root)})
            continue
        assert stage is not None
        match name:
            case "WORKDIR":
                stage.workdir(text)
            case "COPY":
                stage.copy(text)
            case "RUN":
                stage.run(text)
            case "ENV":
                stage.env(text)
            case "ENTRYPOINT":
                stage.entrypoint = msgspec.json.decode(text, type=list[str])
            case "HEALTHCHECK":
                stage.healthcheck = msgspec.json.decode(text.partition(" CMD ")[2], type=list[str])
            case "USER" | "VOLUME" | "EXPOSE" | "STOPSIGNAL":
                pass
            case _:
                raise AssertionError(f"{name} is a step that is not carried out here")
    assert stage is not None
    image = Image(str(root), {**stage.variables, **lent}, stage.entrypoint, stage.healthcheck)
    image.file.write_bytes(msgspec.json.encode(image))
    return image


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each step with its words, on one line."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in re.sub(r"\s*\\\n\s*", " ", lines).splitlines():
        if line:
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


def examples(text: str) -> list[str]:
    """The commands of the head."""
    shown = "\n".join(line[4:] for line in text.splitlines() if line.startswith("#   "))
    return re.sub(r"\s*\\\n\s*", " ", shown).splitlines()


def context_files(context: Path, source: str) -> Iterator[Path]:
    """The files that `docker build` sends of a COPY."""
    found, patterns = context / source, ignore_patterns()
    for path in [found] if found.is_file() else sorted(found.rglob("*")):
        if path.is_file() and not is_ignored(path.relative_to(context), patterns):
            yield path


def ignore_patterns() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def is_ignored(path: Path, patterns: list[str]) -> bool:
    """The last pattern that matches the path or a folder above it counts."""
    ignored = False
    for pattern in patterns:
        plain = pattern.removeprefix("!")
        expression = re.escape(plain).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        if any(re.fullmatch(expression, str(each)) for each in (path, *path.parents)):
            ignored = pattern == plain
    return ignored


def rooted(text: str, root: Path) -> str:
    """The same words with the paths of the image below the folder."""
    return _OWN.sub(f"{root}/", text)


def offline(place: Path) -> dict[str, str]:
    """An environment in which pip needs no index: everything but Waypost and pip is taken from this installation."""
    place.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.lower().startswith(("waypost", "_waypost", "pip", "setuptools", "pkg_resources")):
            (place / path.name).symlink_to(path)
    settings = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return {**os.environ, **settings, "PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": str(place)}


def has_namespaces() -> bool:
    """Whether a process here can have a network and a host name to itself."""
    command = ["unshare", "--map-root-user", "--net", "--uts", "true"]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def try_examples(image: Image, folder: Path) -> Iterator[tuple[str, "subprocess.CompletedProcess[str]"]]:
    """Run the commands of the head in a shell, one after the other, in this folder. The image is built already."""
    environment = {**os.environ, "PATH": _path(Path(image.root)), "IMAGE": str(image.file)}
    for command in examples(DOCKERFILE.read_text(encoding="utf-8")):
        yield (
            command,
            subprocess.run(
                ["sh", "-c", command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            ),
        )


def _path(root: Path) -> str:
    return f"{root}/usr/local/bin:{os.environ['PATH']}"


def _forget(root: Path, kept: list[str]) -> None:
    """A new stage begins with nothing but what it copies from another one."""
    for name in ("source", "opt", "var"):
        if not any(path.startswith(f"/{name}/") for path in kept):
            shutil.rmtree(root / name, ignore_errors=True)
