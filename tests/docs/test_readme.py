"""Every snippet of the README runs, as it stands there, in the order of reading."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.redis_server import free_port
from support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = {name or code.strip(): code for language, name, code in FENCE.findall(README) if language != "text"}
SET_UP = {"make demo", "make test"}


class Shop:
    """A folder with the README's files, and the README's addresses pointed at the test's own servers."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.flower_port = str(free_port())
        self._redis_url = redis_url
        bin_folder = Path(sys.executable).parent
        self.env = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}

    def code(self, name: str) -> str:
        """Give a snippet with its addresses exchanged, and nothing else."""
        code: str = SNIPPETS[name].replace("redis://localhost:6379/0", self._redis_url)
        return code.replace("5555", self.flower_port)

    def python(self, name: str) -> str:
        """Write a snippet into its file, run it, and give what it printed."""
        (self.folder / name).write_text(self.code(name))
        done = subprocess.run(
            [sys.executable, name],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Run a shell snippet until the block is left."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["sh", "-c", f"exec env {self.code(name)}"],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            yield
        except BaseException as error:
            error.add_note(log.read_text())
            raise
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


def test_the_snippets_are_the_ones_this_test_knows() -> None:
    """A new snippet must be run somewhere: here, or as one of the two set-up commands."""
    known = {"myfleet.py", "worker", "enqueue.py", "subscribe.py", "resume.py", "flower", "watch.py"}
    assert set(SNIPPETS) == known | SET_UP


def test_the_readmes_programs_do_what_it_says(tmp_path: Path, own_redis_url: str) -> None:
    """A fleet, a worker, Flower; enqueue, subscribe, resume, watch: all as printed."""
    shop = Shop(tmp_path, own_redis_url)
    (tmp_path / "myfleet.py").write_text(shop.code("myfleet.py"))
    with shop.running("worker"), shop.running("flower"):
        assert shop.python("enqueue.py").startswith("ticket-1001 ")
        heard = shop.python("subscribe.py")
        assert re.search(r"^\d+ approval$", heard, re.MULTILINE)
        resumed = shop.python("resume.py")
        assert "refund {'order_id': '1001', 'amount': 80.0} may be decided by ('finance',)" in resumed
        assert "Your money is on its way." in resumed
        assert re.search(r"^\d+ done$", shop.python("subscribe.py"), re.MULTILINE)
        watched = eventually(lambda: (seen := _watch(shop)).count("SUCCESS") == 2 and seen, 30)
        assert "ticket-1001 SUCCESS" in watched
        assert "ticket-1001:2 SUCCESS" in watched


def _watch(shop: Shop) -> str:
    try:
        return shop.python("watch.py")
    except AssertionError:
        return ""  # Flower is still starting


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_two_commands_work_in_a_fresh_clone(tmp_path: Path) -> None:
    """`make demo` and `make test` on nothing but Python and make; the tests are cut short to one folder here."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=60)
    demo = subprocess.run(
        ["make", "demo", "ARGS=--yes"], cwd=clone, capture_output=True, text=True, timeout=400, check=False
    )
    assert demo.returncode == 0, demo.stderr
    assert "report.md" in demo.stdout
    tests = subprocess.run(
        ["make", "test", "ARGS=tests/registry -q"], cwd=clone, capture_output=True, text=True, timeout=200, check=False
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert re.search(r"\d+ passed", tests.stdout)
