"""Loads that others have published, as shapes of rows, batches and rates. docs/records.md tells who
published them; bench/records_bench.cpp has the same table."""

from typing import NamedTuple

FRAME = 84 * 84


class Load(NamedTuple):
    capacity: int  # Steps that fill the buffer.
    steps: int  # Steps appended per second.
    batches: int  # Batches drawn per second.
    items: int  # Items of a batch.
    environments: int  # Number of environments; a call appends one step of each.
    observation: int  # Bytes of an observation; 0: none.
    column: int  # Floats of the action, or of the whole step.
    state: int = 0  # Floats of the recurrent state; 0: none.
    prioritized: bool = False
    stack: int = 1  # Frames stacked in an observation.
    n_step: int = 0
    length: int = 0  # Steps of a sequence; 0: the window is of transitions.
    period: int = 1
    end: str = "zero_pad"

    @property
    def label(self):
        """The label that reprise-bench prints for this load."""
        rates = f"{self.steps} in, {self.batches} x {self.items} out per second"
        return f"{rates}, of {self.capacity} steps"


LOADS = {
    "Ape-X": Load(500_000, 12_500, 19, 512, 360, FRAME, 1, prioritized=True, stack=4, n_step=3),
    "R2D2": Load(
        *(500_000, 66_560, 5, 64, 256, FRAME, 1, 1024),
        **{"prioritized": True, "stack": 4, "n_step": 5, "length": 80, "period": 40},
    ),
    "Reverb": Load(100_000, 0, 118, 256, 1, 0, 10_000),
    "Spreeze": Load(1_000_000, 15_000, 45, 8192, 16, 88, 6),
    "FastTD3": Load(4_194_304, 40_960, 20, 32_768, 4096, 492, 37, n_step=3),
    "DreamerV3": Load(250_000, 80, 10, 16, 1, 64 * 64 * 3, 1, length=64),
    "TD-MPC2": Load(20_000_000, 0, 20, 256, 1, 96, 6, length=4, end="drop"),
}
