"""A plugin of pytest that replaces lerobot's buffer by that of reprise.lerobot. The images of
lerobot's tests are random floats, which are stored exactly."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from testing.lerobot_guest import lerobot_or_skip

lerobot_or_skip()

from lerobot.rl import buffer

from reprise import lerobot


class ExactBuffer(lerobot.ReplayBuffer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options, images="float32")


buffer.ReplayBuffer = ExactBuffer
