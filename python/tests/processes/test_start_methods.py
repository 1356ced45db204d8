"""A buffer is shared with children of every start method. A child gets nothing but the address."""

import os
import re

import pytest
from testing.children import run_python, run_script
from testing.files import ROOT
from testing.guests import numbered, numbers_in, running_child, write_all
from testing.threads import wait_until


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_a_child_appends_what_its_parent_draws(method):
    replay = numbered()
    with replay.share() as address:
        assert type(address) is str and address.isprintable()
        with running_child(write_all, address, 0, 1000, method=method):
            pass
        wait_until(lambda: len(replay) == 1000)
        assert numbers_in(replay) == list(range(1000))


def test_the_address_goes_through_the_environment():
    replay = numbered()
    with replay.share() as address:
        os.environ["REPLAY"] = address
        try:
            child = run_python(
                "import os, reprise\n"
                "from testing.guests import write_all\n"
                "from testing.threads import wait_until\n"
                "write_all(os.environ['REPLAY'], 0, 1000)\n"
                "guest = reprise.attach(os.environ['REPLAY'])\n"
                "wait_until(lambda: guest.stats()['committed_steps'] == 1000)\n"
            )
        finally:
            del os.environ["REPLAY"]
        assert child.returncode == 0, child.stderr
        assert numbers_in(replay) == list(range(1000))


FORKED = """
import os, sys
import reprise
from testing.guests import numbered, numbers_in, write_all

replay = numbered()
write_all_here = lambda: write_all(address, 100, 50)
with replay.share() as address:
    guest = reprise.attach(address)
    writer = guest.writer()
    sampler = guest.sampler()
    writer.begin_episode(id=0)
    writer.append(action=0, reward=0, next_id=1)
    child = os.fork()
    if child == 0:
        for call in {calls!r}:
            try:
                exec(call)
                print("no error:", call)
            except RuntimeError as error:
                message = str(error)
                assert "a fork of it" in message and "`share`" in message and "`attach`" in message, message
        guest.close(), writer.close()
        del sampler, writer, guest
        write_all_here()
        os._exit(11)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 11
    writer.append(action=1, reward=0, next_id=2, end=1)
    writer.close()
    sampler.sample(4)
    while len(replay) < 52: pass
    assert numbers_in(replay) == [0, 1, *range(100, 150)]
print("end")
"""

CALLS = [
    "replay.stats()",
    "replay.share()",
    "guest.stats()",
    "guest.writer()",
    "guest.sampler()",
    "guest.update_priorities([], [])",
    "writer.begin_episode(id=0)",
    "writer.append(action=0, reward=0, next_id=0)",
    "sampler.sample(4)",
]


def test_a_forked_child_of_host_and_guest_is_told_to_attach_and_can_do_so():
    child = run_python(FORKED.format(calls=CALLS))
    assert (child.returncode, child.stdout) == (0, "end\n"), child.stderr


def test_handing_a_buffer_to_a_process_is_refused_and_the_error_names_attach():
    with pytest.raises(RuntimeError, match=r"replay.share\(\).*reprise.attach\(address\)"):
        with running_child(write_all, numbered(), 0, 1):
            pass


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_the_program_of_docs_processes_runs(method, tmp_path):
    text = (ROOT / "docs" / "processes.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    program = tmp_path / "program.py"
    start = f"import multiprocessing\n\nmultiprocessing.set_start_method({method!r}, force=True)\n"
    program.write_text(code.replace("import multiprocessing\n", start), "utf-8")
    child = run_script(program)
    assert (child.returncode, child.stdout) == (0, "3000\n"), child.stderr
