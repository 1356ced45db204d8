"""Classes with the interfaces of other replay buffers, on top of reprise.

    from reprise.compat.baselines import PrioritizedReplayBuffer, ReplayBuffer
    from reprise.compat.baselines import MinSegmentTree, SumSegmentTree
    from reprise.compat.cpprb import PrioritizedReplayBuffer, ReplayBuffer
    from reprise.compat.experience_replay import ExperienceReplay, PickSelector

Each module says what it covers and what it does not. The classes are for existing code; new code is
shorter and quicker with `reprise.ReplayBuffer`. docs/migrate has the calls side by side.
"""
