"""Errors of wrong arguments name the call, the argument, the value and what is allowed."""

import re
import warnings

import numpy as np
import pytest
from testing.buffers import fill, plain_schema
from testing.refusals import refuses

import reprise


def new():
    return reprise.Schema()


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The names that the calls below, which are texts, may use."""
    schema = plain_schema()
    buffer = reprise.ReplayBuffer(schema, 100, selectors=reprise.Uniform(), episode_index=True)
    fill(buffer, 10)
    yield {
        "b": buffer,
        "s": schema,
        "w": buffer.writer(),
        "v": buffer.vector_writer(2, autoreset="same_step"),
        "batch": buffer.sampler().sample(4),
        "tree": reprise.SegmentTree(4),
        "at": tmp_path_factory.mktemp("saved"),
        "new": new,
        "np": np,
        "reprise": reprise,
        "load": reprise.ReplayBuffer.load,
        "from_step": reprise.Schema.from_step,
    }
    buffer.close()


OPTIONS = (
    "schema, capacity_steps, window, selectors, remover, rate_limiter, max_times_sampled, "
    "max_staleness, episode_index, max_writers, chunk_steps, shards, key_tag, storage"
)

WRONG_SIGNATURES = {
    "reprise.ReplayBuffer()": "ReplayBuffer: schema is missing",
    "reprise.ReplayBuffer(s)": "ReplayBuffer: capacity_steps is missing",
    "reprise.ReplayBuffer(s, 10, alpha=1)": "ReplayBuffer: unexpected keyword 'alpha'; allowed: "
    + OPTIONS,
    "reprise.ReplayBuffer(s, 10, None)": "ReplayBuffer takes 2 positional arguments; given 3: "
    "name the others",
    "reprise.ReplayBuffer(s, 10, schema=s)": "ReplayBuffer: schema is given twice",
    "reprise.Schema(1)": "Schema takes 0 positional arguments; given 1",
    "new().observation('x')": "Schema.observation: dtype is missing",
    "from_step()": "Schema.from_step: observations is missing",
    "from_step({'x': 1})": "Schema.from_step takes 0 positional arguments; given 1: name the others",
    "b.prefetch(4, foo=1)": "ReplayBuffer.prefetch: unexpected keyword 'foo'; allowed: n, depth, "
    "beta, normalise, draws, n_step, discount, gather, seed, unique_frames, fresh, allocator, "
    "timeout",
    "b.sampler(1)": "ReplayBuffer.sampler takes 0 positional arguments; given 1: name the others",
    "b.stats(x=1)": "ReplayBuffer.stats: unexpected keyword 'x'; allowed: none",
    "b.stats(self=1)": "ReplayBuffer.stats: unexpected keyword 'self'; allowed: none",
    "b.save()": "ReplayBuffer.save: directory is missing",
    "load()": "ReplayBuffer.load: directory is missing",
    "b.episodes().find(1, episode=1)": "Episodes.find: episode is given twice",
    "reprise.Episodes.find(5, 1, 1)": "descriptor 'find' for '",
    "reprise.Episodes.find()": "unbound method Episodes.find() needs an argument",
    "w.completing()": "Writer.completing: end is missing",
    "w.close(1)": "Writer.close takes 0 positional arguments; given 1",
    "v.close(1)": "VectorWriter.close takes 0 positional arguments; given 1",
    "batch.keys(1)": "Batch.keys takes 0 positional arguments; given 1",
    "reprise.SegmentTree()": "SegmentTree: capacity is missing",
    "tree.sum(1, 2, 3)": "SegmentTree.sum takes 2 positional arguments; given 3",
    "tree.assign(1)": "SegmentTree.assign: values is missing",
}

WRONG_KINDS = {
    "reprise.ReplayBuffer('x', 5)": "ReplayBuffer: schema is 'x'; allowed: a Schema",
    "new().observation(5, 'f4')": "Schema.observation: name is 5; allowed: a str that",
    "new().reward((2,))": "Schema.reward: name is (2,); allowed: a str that",
    "new().discount('\\ud800')": "Schema.discount: name is '\\ud800'; allowed: a str that",
    "new().observation('x', 'nonsense')": "Schema.observation: field 'x': dtype is 'nonsense'; allowed: bool, int8",
    "new().column('x', (3, 4))": "Schema.column: field 'x': dtype is (3, 4); allowed: bool, int8",
    "from_step(observations={5: 1.0})": "Schema.from_step: a name in observations is 5; allowed",
    "from_step(observations={'\\ud800': 1.0})": "Schema.from_step: a name in observations is ",
    "from_step(observations=[1])": "Schema.from_step: observations is [1]; allowed: a mapping of",
    "from_step(observations={'x': 1}, columns=5)": "Schema.from_step: columns is 5; allowed: a",
    "from_step(observations={'x': 1}, rewards='rew')": "Schema.from_step: rewards is 'rew'; "
    "allowed: a sequence of names",
    "from_step(observations={'x': 1}, rewards=5)": "Schema.from_step: rewards is 5; allowed: a",
    "from_step(observations={'x': 1}, rewards=[5])": "Schema.from_step: a name in rewards is 5",
    "from_step(observations={'x': 1}, discount=5)": "Schema.from_step: discount is 5; allowed: a str",
    "reprise.SegmentTree(4, 'nonsense')": "SegmentTree: dtype is 'nonsense'; allowed: float32 and",
    "b.save(5)": "ReplayBuffer.save: directory is 5; allowed: a path",
    "load(5)": "ReplayBuffer.load: directory is 5; allowed: a path",
    "b.restore(5)": "ReplayBuffer.restore: directory is 5; allowed: a path",
    "b.save(at, attachments=5)": "ReplayBuffer.save: attachments is 5; allowed: a dict",
    "b.save(at, attachments={1: b''})": "ReplayBuffer.save: a name in attachments is 1; allowed: ",
    "b.save(at, attachments={b'a': b''})": "ReplayBuffer.save: a name in attachments is b'a'; allo",
    "b.save(at, attachments={'\\udcff': b''})": "ReplayBuffer.save: a name in attachments is '\\udcff'",
    "b.save(at, attachments={'a': 5})": "ReplayBuffer.save: attachments['a'] is of type int; all",
    "b.save(at, samplers=5)": "ReplayBuffer.save: samplers is 5; allowed: a sequence of Samplers",
    "b.save(at, progress=5)": "ReplayBuffer.save: progress is 5; allowed: None or a function of",
    "b.update_priorities(batch.item_keys, None)": "ReplayBuffer.update_priorities: priorities: "
    "expected float32 of shape (n,); given None",
    "b.episodes().update_priorities(0, 0, None)": "Episodes.update_priorities: "
    "priorities: expected float32 of shape (n,); given None",
    "reprise.ReplayBuffer(s, 9, window=3)": "ReplayBuffer: window is 3; allowed: Transitions, Seq",
    "reprise.ReplayBuffer(s, 9, selectors=[3])": "ReplayBuffer: selectors is 3; allowed: Uniform, ",
    "reprise.ReplayBuffer(s, 9, storage=3)": "ReplayBuffer: storage is 3; allowed: None or a path",
    "new().column('x', 'i1', 3)": "Schema.column: field 'x': shape is 3; allowed: a sequence",
    "b.sampler(allocator=5)": "ReplayBuffer.sampler: allocator is 5; allowed: None or a function",
    "b.sampler(allocator=lambda n: 5).sample(1)": "ReplayBuffer.sampler: allocator gave int; allowed",
    "b.hindsight('state').relabel([], 5)": "Hindsight.relabel: goals: expected an array or a tensor",
    "w.begin_episode(state=1j)": "Writer.begin_episode: field 'state': expected float32 of shape",
}


# Calls in which {} is a count, place or size, and how errors name that argument.
COUNTS = {
    "reprise.ReplayBuffer(s, {})": "ReplayBuffer: capacity_steps",
    "reprise.ReplayBuffer(s, 10, max_times_sampled={})": "ReplayBuffer: max_times_sampled",
    "reprise.ReplayBuffer(s, 10, max_writers={})": "ReplayBuffer: max_writers",
    "reprise.ReplayBuffer(s, 10, chunk_steps={})": "ReplayBuffer: chunk_steps",
    "reprise.ReplayBuffer(s, 10, shards={})": "ReplayBuffer: shards",
    "reprise.ReplayBuffer(s, 10, key_tag={})": "ReplayBuffer: key_tag",
    "reprise.ReplayBuffer(s, 10, window=reprise.Transitions(n_step={}))": "Transitions.n_step",
    "reprise.ReplayBuffer(s, 9, window=reprise.Transitions(frame_stack={}))": "Transitions.frame_stack",
    "reprise.ReplayBuffer(s, 10, window=reprise.Sequences(length={}))": "Sequences.length",
    "reprise.ReplayBuffer(s, 10, rate_limiter=reprise.MinSize({}))": "MinSize.items",
    "reprise.ReplayBuffer(s, 10, rate_limiter=reprise.Queue({}))": "Queue.size",
    "reprise.ReplayBuffer(s, 10, remover=reprise.SecondChance(), shards={})": "ReplayBuffer: shards",
    "reprise.ReplayBuffer(s, 9, remover=reprise.LeastFrequentlySampled({}))": ""
    "LeastFrequentlySampled.candidates",
    "reprise.ReplayBuffer(s, 9, remover=reprise.LowestPriority({}))": "LowestPriority.selector",
    "new().observation('x', 'f4', ({},))": "Schema.observation: field 'x': shape[0]",
    "new().column('x', 'f4', (3, {}))": "Schema.column: field 'x': shape[1]",
    "b.sampler(seed={})": "ReplayBuffer.sampler: seed",
    "b.selector({})": "ReplayBuffer.selector: place",
    "b.sampler(resume={})": "ReplayBuffer.sampler: resume",
    "b.sampler().sample({})": "Sampler.sample: n",
    "b.sampler().empty_batch({})": "Sampler.empty_batch: n",
    "b.sampler().sample_into(batch, {}, 1)": "Sampler.sample_into: offset",
    "b.prefetch({})": "ReplayBuffer.prefetch: n",
    "b.prefetch(1, depth={})": "ReplayBuffer.prefetch: depth",
    "b.prefetch(1, seed={})": "ReplayBuffer.prefetch: seed",
    "b.vector_writer({}, autoreset='disabled')": "ReplayBuffer.vector_writer: environments",
    "b.hindsight('state', seed={})": "ReplayBuffer.hindsight: seed",
    "b.episodes().find({}, 0)": "Episodes.find: episode",
    "b.episodes().find(0, {})": "Episodes.find: position",
    "b.episodes().update_priorities({}, 0, [1])": "Episodes.update_priorities: episode",
    "b.episodes().update_priorities(0, {}, [1])": "Episodes.update_priorities: position",
    "b.episodes().update_priorities(0, 0, [1], {})": "Episodes.update_priorities: selector",
    "b.episodes().gather(0, {}, 1)": "Episodes.gather: position",
    "b.episodes().remove({})": "Episodes.remove: episode",
    "b.episodes().sums(np.zeros(0, np.int64), {})": "Episodes.sums: selector",
    "b.save(at, keep={})": "ReplayBuffer.save: keep",
    "b.save(at, compression={})": "ReplayBuffer.save: compression",
    "b.save(at, bytes_per_second={})": "ReplayBuffer.save: bytes_per_second",
    "reprise.mix([b], {})": "Mix: n",
    "reprise.mix([(b, {})])": "Mix: parts[0]",
    "reprise.SegmentTree({})": "SegmentTree: capacity",
    "tree.leaf({})": "SegmentTree.leaf: leaf",
    "tree.sum({})": "SegmentTree.sum: first",
    "tree.min(0, {})": "SegmentTree.min: last",
    "v[{}]": "VectorWriter: environment",
}
# Calls in which {} is a real number, and how errors name that argument.
REALS = {
    "reprise.ReplayBuffer(s, 9, window=reprise.Transitions(discount={}))": "Transitions.discount",
    "reprise.ReplayBuffer(s, 9, selectors=reprise.Proportional(alpha={}))": "Proportional.alpha",
    **{
        f"reprise.ReplayBuffer(s, 9, selectors=reprise.{name.replace('.', '(')}={{}}))": name
        for name in "Proportional.epsilon MaxHeap.initial RankBased.alpha Recency.p LossAdjusted.alpha "
        "Mixture.uniform Mixture.alpha".split()
    },
    "reprise.ReplayBuffer(s, 9, rate_limiter=reprise.SampleToInsertRatio({}))": ""
    "SampleToInsertRatio.samples_per_insert",
    "reprise.ReplayBuffer(s, 9, rate_limiter=reprise.SampleToInsertRatio(2.0, error_buffer={}))": ""
    "SampleToInsertRatio.error_buffer",
    "b.sampler(fresh={})": "ReplayBuffer.sampler: fresh",
    "b.sampler().sample(1, beta={})": "Sampler.sample: beta",
    "b.prefetch(1, beta={})": "ReplayBuffer.prefetch: beta",
    "b.selector().set_alpha({})": "SelectorHandle.set_alpha: alpha",
    "b.set_samples_per_insert({})": "ReplayBuffer.set_samples_per_insert: samples_per_insert",
    "tree.scale({})": "SegmentTree.scale: factor",
    "b.hindsight('state', share={})": "ReplayBuffer.hindsight: share",
    "b.selector().decay({})": "SelectorHandle.decay: factor",
    "tree.fill({})": "SegmentTree.fill: value",
}
TIMES = {
    "b.sampler().sample(1, timeout={})": "Sampler.sample: timeout",
    "b.writer(timeout={})": "ReplayBuffer.writer: timeout",
    "b.prefetch(1, timeout={})": "ReplayBuffer.prefetch: timeout",
}
FLAGS = {
    "reprise.ReplayBuffer(s, 9, episode_index={})": "ReplayBuffer: episode_index",
    "b.sampler().sample(1, views={})": "Sampler.sample: views",
    "b.prefetch(1, gather={})": "ReplayBuffer.prefetch: gather",
    "b.save(at, incremental={})": "ReplayBuffer.save: incremental",
}
# Counts whose C++ type is signed: -1 reaches the library, which refuses it in its own words.
SIGNED = (
    *("Sampler.sample: n", "Sampler.empty_batch: n", "ReplayBuffer.prefetch: n"),
    *("ReplayBuffer.save: compression", "Mix: n"),
)


@pytest.mark.parametrize("call, name", [*COUNTS.items(), *REALS.items(), *TIMES.items()])
def test_true_and_false_are_refused_as_numbers(call, name, names):
    for given in ("True", "False"):
        with pytest.raises(TypeError, match=f"^{re.escape(name)} is .*{given}.*; allowed: "):
            eval(call.format(given), dict(names))


@pytest.mark.parametrize("call, name", COUNTS.items())
def test_counts_are_integers_in_range(call, name, names):
    for given in ("1.5", "'1'", "np.float32(1)", "np.True_"):
        shown = "" if name == "Mix: parts[0]" else re.escape(repr(eval(given)))
        with pytest.raises(TypeError, match=f"^{re.escape(name)} is .*{shown}.*; allowed: "):
            eval(call.format(given), dict(names))
    for given in (-(2**70), 2**70):
        said = f"^{re.escape(name)} is {given}; allowed: an integer of"
        refuses(ValueError, said, eval, call.format(given), dict(names))
    if name not in SIGNED and not call.startswith("v["):
        said = f"^{re.escape(name)} is -1; allowed: an integer of at"
        refuses(ValueError, said, eval, call.format("-1"), dict(names))
    negative = (
        "allowed: 1 to max_writers|^environment -3 of 2$|"
        + re.escape(name)
        + " is .*-1.*(; allowed: |range)"
    )
    with pytest.raises((ValueError, IndexError), match=negative):
        eval(call.format("-1" if not call.startswith("v[") else "-3"), dict(names))
    # An integer of numpy is taken, or refused for its value, but never for its type.
    try:
        eval(call.format("np.int32(10**9)" if "per_second" in call else "np.int32(1)"), dict(names))
    except (ValueError, RuntimeError, TimeoutError, IndexError):
        pass


@pytest.mark.parametrize("call, name", REALS.items())
def test_numbers_are_real_and_in_range(call, name, names):
    for given in ("x", 1j, [1.0, 2.0]):
        # A text in MaxHeap.initial may be a word that is allowed, so a wrong one is a ValueError.
        error = (TypeError, ValueError) if name == "MaxHeap.initial" else TypeError
        with pytest.raises(error, match=f"^{re.escape(name)} is .*; allowed: .*a number$"):
            eval(call.format(repr(given)), dict(names))
    said = f"^{re.escape(name)} is 10+; allowed: a number in the range"
    refuses(ValueError, said, eval, call.format(10**400), dict(names))


@pytest.mark.parametrize("call, name", FLAGS.items())
def test_flags_are_true_or_false(call, name, names):
    with pytest.raises(TypeError, match=f"^{name} is 'x'; allowed: True or False$"):
        eval(call.format("'x'"), dict(names))


def test_numbers_of_numpy_are_numbers(names):
    one, half, yes = np.int32(1), np.float64(0.5), np.bool_(True)
    buffer = reprise.ReplayBuffer(
        plain_schema(),
        np.uint16(100),
        window=reprise.Transitions(n_step=one, discount=half),
        selectors=reprise.Proportional(alpha=half, initial=half),
        rate_limiter=reprise.MinSize(np.array(2)),
        shards=one,
        key_tag=one,
        episode_index=yes,
    )
    assert buffer.options["capacity_steps"] == 100 and buffer.options["episode_index"] is True
    buffer.selector(np.uint8(0)).set_alpha(np.float32(0.25))
    names["b"].sampler(seed=np.uint64(2**64 - 1)).sample(np.int8(4), beta=half, views=yes)
    assert names["b"].episodes().find(np.int64(0), np.uint8(3)) is not None
    assert reprise.SegmentTree(np.int64(4)).sum(one, np.int64(3)) == 0


class Bad:
    """A number whose conversion raises an error of the user."""

    def __index__(self):
        raise LookupError("mine")

    __float__ = __bool__ = __index__


@pytest.mark.parametrize(
    "call",
    [
        "reprise.ReplayBuffer(s, 9, shards=Bad())",
        "reprise.ReplayBuffer(s, 9, window=reprise.Transitions(discount=Bad()))",
        "reprise.ReplayBuffer(s, 9, episode_index=Bad())",
        "w.completing(Bad())",
    ],
)
def test_an_error_in_the_users_conversion_reaches_the_caller(call, names):
    refuses(LookupError, "mine", eval, call, names | {"Bad": Bad})


@pytest.mark.parametrize("call, message", [*WRONG_SIGNATURES.items(), *WRONG_KINDS.items()])
def test_a_type_error_names_what_is_wrong(call, message, names):
    with pytest.raises(TypeError, match="^" + re.escape(message)) as error:
        eval(call, dict(names))
    assert "incompatible" not in str(error.value) and "Invoked" not in str(error.value)


# Errors of the C++ library, which the package rewords for Python.
REFUSED = {
    "make(window=reprise.Transitions(n_step=0))": "Transitions.n_step is 0; allowed: 1 to 65535",
    "make(selectors=reprise.Proportional(initial=-1))": "Proportional.initial is -1; allowed: finite, at least 0",
    "make(selectors=[])": "ReplayBuffer: number of selectors is 0; allowed: 1 to 16",
    "make(rate_limiter=reprise.SampleToInsertRatio(10, 1, 2))": "SampleToInsertRatio.error_buffer "
    "is 2; allowed",
    "make(remover=reprise.LowestPriority(selector=4))": "LowestPriority.selector is 4; allowed",
    "make(schema=plain_schema().recurrent_state('h', 'f4', (3,)))": "ReplayBuffer: field 'h' is a recurrent "
    "state, and window is Transitions; allowed: Sequences, of which each item has the state of its "
    "first step; with Transitions a column, which",
    "make(rate_limiter=reprise.Queue(4), max_times_sampled=1).sampler().sample(5)": "Sampler.sample: batch size is 5; allowed: at most "
    "Queue.size = 4",
    "make(rate_limiter=reprise.Queue(4))": "ReplayBuffer: max_times_sampled is 0, with a Queue as rate_limiter; "
    "allowed: at least 1",
    "new().column('end', 'i1')": "Schema.column: field 'end': the name is a keyword of the",
    "b.sampler(allocator=lambda n: bytearray(1)).sample(1)": "ReplayBuffer.sampler: allocator gave "
    "1 bytes; asked for",
    "b.hindsight('state', goal='last')": "ReplayBuffer.hindsight: goal is 'last'; allowed: 'future'",
    "b.hindsight('state').relabel([], np.zeros(5))": "Hindsight.relabel: goals: expected a writable",
    "b.update_priorities([], [1])": "ReplayBuffer.update_priorities: priorities: expected float32 of "
    "shape (0,), one for each key; given shape (1,)",
    "b.selector().update([], [1])": "SelectorHandle.update: priorities: expected float32 of shape",
    "b.sampler().update_priorities([], [1])": "Sampler.update_priorities: priorities: expected",
    "w.append(**step | {'action': 2**40})": "Writer.append: field 'action': 1099511627776 is out of",
    "w.append(**step | {'next_state': [0]})": "Writer.append: field 'next_state': expected float32",
    "v.append(end=[1, 0], final={'state': [[0, 0]]}, **rows)": "VectorWriter.append: field "
    "'final.state': expected",
    "b.hindsight('state', share=2.0)": "ReplayBuffer.hindsight: share is 2; allowed: 0 to 1",
    "b.prefetch(1, timeout=-1)": "ReplayBuffer.prefetch: timeout is -1 s; allowed: None or at least 0",
    "b.prefetch(1, draws='all')": "ReplayBuffer.prefetch: draws is 'all'; allowed: 'stratified', 'independent', ",
    "b.selector(5)": "ReplayBuffer.selector: selector is 5; allowed: 0 to 0",
    "b.sampler(resume=5)": "ReplayBuffer.sampler: resume is 5; the buffer was loaded",
    "b.save(at, keep=0)": "ReplayBuffer.save: keep is 0; allowed: 1 to 1000",
    "b.save(at, compression=30)": "ReplayBuffer.save: compression is of level 30; allowed: 0 to 19",
    "b.save(at, attachments={'a' * 99999: b''})": "ReplayBuffer.save: attachments: a name of 99999",
    "b.selector().reset(-1)": "SelectorHandle.reset: priority is -1; allowed: finite",
    "make().selector().set_alpha(10)": "SelectorHandle.set_alpha: alpha is 10; allowed: 0 to 8",
    "make().set_samples_per_insert(2.0)": "ReplayBuffer.set_samples_per_insert: rate_limiter is a MinSize; "
    "allowed: SampleToInsertRatio",
    "make().episodes()": "ReplayBuffer.episodes: finding items by episode needs episode_index, which is off: "
    "make the buffer with it",
    "w.append(**step, priorities=[1, 2])": "Writer.append: 2 priorities; this call decides 1 items",
    "tree.assign([9], [1.0])": "SegmentTree.assign: leaves[0] = 9; allowed: below 4",
    "reprise.SegmentTree(0)": "SegmentTree: capacity = 0; allowed: 1 to",
    "make(schema=new().column('A::b', 'i1').column('B::c', 'i1')).writer().begin_episode(x=1)": ""
    "Writer.begin_episode: unknown field 'x'; fields: ",
}


@pytest.mark.parametrize("call, message", REFUSED.items())
def test_errors_of_the_cpp_library_are_in_words_of_python(call, message, names):
    names["w"].begin_episode(state=[0, 0])
    names["v"].begin(state=np.zeros((2, 2)))
    names = dict(names, step={"action": 1, "reward": 1, "next_state": [0, 0]})
    names["rows"] = {name: [value, value] for name, value in names["step"].items()}

    def make(schema=names["s"], **options):
        return reprise.ReplayBuffer(schema, 100, **options)

    with pytest.raises((ValueError, RuntimeError), match="^" + re.escape(message)) as error:
        eval(call, {**names, "make": make, "plain_schema": plain_schema})
    assert "::" not in str(error.value)


@pytest.mark.parametrize("timeout", [9e9, 1e10, 1e300, float("inf")])
def test_a_timeout_that_no_clock_reaches_is_taken_as_none(timeout, names):
    assert len(names["b"].sampler().sample(4, timeout=timeout).weights) == 4


def test_a_field_name_with_colons_is_not_reworded():
    schema = reprise.Schema().column("A::b", np.int8)
    refuses(
        ValueError, "^Schema.column: field 'A::b' is there already", schema.column, "A::b", np.int8
    )


def test_errors_of_a_users_code_are_not_reworded(names):
    """Not even a TypeError whose text looks like one of the binding's own."""

    def allocate(nbytes):
        raise TypeError("sampler(): incompatible with it")

    with pytest.raises(TypeError, match="^sampler\\(\\): incompatible with it$"):
        names["b"].prefetch(4, allocator=allocate).__next__()

    class Odd:
        def __index__(self):
            raise TypeError("find(): incompatible function arguments")

    refuses(TypeError, "Episodes.find: position is", names["b"].episodes().find, 0, Odd())


def test_a_value_that_is_no_array_is_named(names):
    with pytest.raises((ValueError, TypeError), match="field 'x': "):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Older versions of numpy warn.
            reprise.Schema.from_step(observations={"x": [[1], [1, 2]]})
    for call in ("assign([[1], [1, 2]], 1)", "assign(1, [[1], [1, 2]])"):
        with pytest.raises((ValueError, TypeError), match="^SegmentTree.assign: (leaves|values)"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                eval("tree." + call, dict(names))
    with pytest.raises(
        ValueError, match=r"^ReplayBuffer.save: attachments\['a'\] cannot be read: .*contiguous"
    ):
        names["b"].save(names["at"], attachments={"a": np.zeros((4, 4))[:, ::2]})


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble, ">f8", np.float32])
def test_priorities_too_large_for_float32(dtype, names):
    given = np.array([1, 0, 3e38, 1], dtype)
    assert names["b"].update_priorities(names["batch"].item_keys, given[::-1]) == (4, 0)
    if dtype is np.float32:
        return
    given[2] = 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"priorities: 1e\+300 is out of the range of float32"):
            names["b"].update_priorities(names["batch"].item_keys, given)
        given[2] = np.inf
        with pytest.raises(ValueError, match=r"priorities\[2\] is inf; allowed"):
            names["b"].update_priorities(names["batch"].item_keys, given)


def test_a_field_that_a_batch_lacks_is_a_key_error(names):
    batch = names["batch"]
    for call, name, fields in (
        (lambda: batch.now["zz"], "'zz'", "Batch.now: state, action, reward"),
        (lambda: batch.next["action"], "'action'", "Batch.next: state"),
        (lambda: batch.returns[3], "3", "Batch.returns: reward"),
    ):
        with pytest.raises(KeyError) as error:
            call()
        assert error.value.args == (f"no field {name}; fields of {fields}",)
    assert batch.next.get("action") is None and "action" not in batch.next
    with pytest.raises(TypeError):
        batch.now["state"] = 1


def test_a_batch_iterates_over_its_fields(names):
    batch = names["batch"]
    assert list(batch) == ["state", "next_state", "action", "reward"]
    assert all(name in batch and batch[name] is not None for name in batch)
    assert dict(batch.now).keys() == {"state", "action", "reward"}


def test_a_call_ignores_the_keywords_of_the_call_before(names):
    """A method caches the keywords of its last call; a call with other keywords must not use the
    cache."""
    find = names["b"].episodes().find
    expected = [find(0, position) for position in range(4)]
    assert len(set(expected)) == 4
    # Equal names that are other objects: texts made at run time are not interned.
    not_interned = {"".join(["epi", "sode"]): 0, "".join(["posi", "tion"]): 3}
    for _ in range(3):
        assert find(episode=0, position=1) == expected[1]
        assert find(position=2, episode=0) == expected[2]
        assert find(0, position=1) == expected[1]
        assert find(**not_interned) == expected[3]
        refuses(TypeError, "find: unexpected keyword 'places'", find, episode=0, places=1)
        refuses(TypeError, "find: episode is given twice", find, 0, episode=0)
        refuses(TypeError, "find: position is missing", find, episode=0)


def test_a_conversion_may_call_the_same_method_of_another_writer(names):
    buffer = reprise.ReplayBuffer(plain_schema(), 100)
    inner, outer = buffer.writer(), buffer.writer()
    for writer in (inner, outer):
        writer.begin_episode(state=[0, 0])

    class AppendsWhenConverted:
        def __array__(self, dtype=None, copy=None):
            inner.append(next_state=[7, 7], reward=7, action=7)
            return np.array([1, 1], np.float32)

    outer.append(action=1, end=1, next_state=AppendsWhenConverted(), reward=1)
    inner.append(action=8, reward=8, end=reprise.End.TRUNCATED, next_state=[8, 8])
    drawn = buffer.sampler().sample(3, draws="without_replacement", timeout=0)
    rows = zip(drawn["action"], drawn["reward"], drawn["next_state"][:, 0], drawn.discounts > 0)
    assert sorted(rows) == [(1, 1, 1, False), (7, 7, 7, True), (8, 8, 8, True)]


def test_none_stands_for_a_default_that_is_none(names):
    sampler = names["b"].sampler(allocator=None, resume=None)
    assert len(sampler.sample(4, timeout=None)) == 4
    for option in ("max_times_sampled", "max_writers", "shards"):
        with pytest.raises((TypeError, ValueError), match=f"{option} is None"):
            reprise.ReplayBuffer(names["s"], 10, **{option: None})
    plain = reprise.ReplayBuffer(names["s"], 10, key_tag=None, window=None, storage=None)
    assert plain.options["window"] == reprise.Transitions()
