"""Threads for tests, whose errors fail the test."""

import contextlib
import threading
import time


@contextlib.contextmanager
def running(*functions):
    """Runs functions in threads during the block, and joins them. Yields the list of their results,
    and raises the first error of a thread."""
    results, errors = [None] * len(functions), []

    def work(i):
        try:
            results[i] = functions[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    try:
        yield results
    finally:
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


@contextlib.contextmanager
def repeating(function):
    """Calls a function over and over in a thread during the block."""
    done = False

    def work():
        while not done:
            function()

    with running(work):
        try:
            yield
        finally:
            done = True


def wait_until(condition):
    """Waits until the function returns something true, and returns that."""
    end = time.monotonic() + 180
    while not (result := condition()):
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.002)
    return result


def until_waiting(buffer, kind, n=1):
    """Waits until n calls wait in the way that `stats()` calls `kind`."""
    wait_until(lambda: buffer.stats()[kind]["waiting_now"] >= n)
