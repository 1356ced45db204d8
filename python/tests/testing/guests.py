"""Functions that processes run on a buffer which another process shares. Observation and action of
step i are i, and the next observation is i + 1."""

import contextlib
import multiprocessing
import time

import numpy as np

import reprise

EPISODE = 25


def numbered(steps=100_000, **options):
    schema = reprise.Schema().observation("id", np.int64).column("action", np.int64).reward()
    return reprise.ReplayBuffer(schema, steps, **options)


@contextlib.contextmanager
def attached_guest(replay, **options):
    """Attaches a guest in the buffer's own process, for tests that need no second process."""
    with replay.share(**options) as address, reprise.attach(address) as guest:
        yield guest


@contextlib.contextmanager
def running_child(target, *arguments, method="spawn"):
    """Starts a process that runs `target` during the block. It has to end within 3 minutes after
    that."""
    child = multiprocessing.get_context(method).Process(target=target, args=arguments)
    child.start()
    try:
        yield child
        child.join(180)
        assert child.exitcode == 0
    finally:
        kill(child)


def kill(child):
    """Kills a process by SIGKILL."""
    child.kill()
    child.join()


def numbers_in(replay):
    """Returns the number of each item, sorted. Checks that each item is as it was appended."""
    n = len(replay)
    batch = replay.sampler().sample(n, draws="without_replacement", timeout=0)
    assert (batch["action"] == batch["id"]).all() and (batch["next_id"] == batch["id"] + 1).all()
    return sorted(batch["id"].tolist())


def append_numbers(writer, first, steps):
    """Appends steps, and yields the number of each once it is appended. An episode has EPISODE
    steps."""
    for i in range(steps):
        if i % EPISODE == 0:
            writer.begin_episode(id=first + i)
        last = i % EPISODE == EPISODE - 1 or i == steps - 1
        writer.append(
            action=first + i,
            reward=1.0,
            next_id=first + i + 1,
            end=reprise.End.TERMINATED if last else reprise.End.CONTINUE,
        )
        yield first + i


def write_versions(address, versions):
    """Appends an episode; step i is by the policy of version versions[i]."""
    with reprise.attach(address) as guest, guest.writer() as writer:
        append_versions(writer, versions)


def append_versions(writer, versions):
    writer.begin_episode(x=0)
    for i, version in enumerate(versions):
        writer.set_version(version)
        writer.append(reward=0, next_x=i + 1)


def write_all(address, first, steps):
    with reprise.attach(address) as guest, guest.writer() as writer:
        for _ in append_numbers(writer, first, steps):
            pass


def write_vectors(address, first, steps, environments):
    """Appends with autoreset 'same_step': environment e gets the numbers from first + e * steps
    on."""
    with reprise.attach(address) as guest:
        with guest.vector_writer(environments, autoreset="same_step") as writers:
            now = first + np.arange(environments) * steps
            writers.begin(id=now)
            for t in range(steps):
                ended = np.full(environments, t % EPISODE == EPISODE - 1 or t == steps - 1)
                end = reprise.ends(ended, np.zeros(environments, bool))
                after = now + 1
                final = {"id": after} if ended.any() else None
                writers.append(
                    action=now, reward=np.ones(environments), next_id=after, end=end, final=final
                )
                now = after


def write_for_ever(address, first, acknowledged):
    """Appends until the process is killed. Counts in shared memory the steps whose append has
    returned."""
    guest = reprise.attach(address)
    writer = guest.writer()
    for _ in append_numbers(writer, first, 1 << 40):
        acknowledged.value += 1


def host(connection, fill_steps):
    """Shares a buffer until the process is killed."""
    replay = numbered()
    if fill_steps:
        for _ in append_numbers(replay.writer(), 0, fill_steps):
            pass
    with replay.share(ring_steps=64) as address:
        connection.send(address)
        time.sleep(600)


@contextlib.contextmanager
def hosting(fill_steps=0):
    """Runs `host` in a process during the block; yields that process and the buffer's address."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=host, args=(theirs, fill_steps))
    child.start()
    try:
        yield child, ours.recv()
    finally:
        kill(child)
