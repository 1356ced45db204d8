"""python -m reprise inspect CHECKPOINT: what a checkpoint holds."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

import reprise

from ._inspect import report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reprise")
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser("inspect", help="what a checkpoint holds, as tables")
    inspect.add_argument("checkpoint", help="a directory that ReplayBuffer.save wrote")
    inspect.add_argument("--plot", metavar="FILE", help="also make a picture, by matplotlib")
    inspect.add_argument(
        "--storage", metavar="DIR", help="keep the rows in a mapped file in DIR, not in memory"
    )
    options = parser.parse_args(arguments)
    if options.plot is not None and importlib.util.find_spec("matplotlib") is None:
        inspect.error("--plot needs the package matplotlib, which is not installed")
    try:
        for line in report(options.checkpoint, options.plot, options.storage):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:  # The reader, such as `head`, has enough.
        # Python flushes stdout as it ends, which would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, reprise.CheckpointError) as error:
        print(f"{options.checkpoint}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
