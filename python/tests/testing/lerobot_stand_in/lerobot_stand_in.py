"""A plugin of pytest that replaces lerobot's buffer by that of reprise.lerobot, which keeps the images
of lerobot's tests, random floats, as they are."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from testing.lerobot_guest import lerobot_or_skip

lerobot_or_skip()

from lerobot.rl import buffer

from reprise import lerobot


class Exact(lerobot.ReplayBuffer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options, images="float32")


buffer.ReplayBuffer = Exact
