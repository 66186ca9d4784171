"""Saved results of learning: what comes back is what went in, and neither a claim nor its evidence can be forged."""

import json
import math
import random
import zipfile
from dataclasses import replace
from functools import cache

import cvxpy as cp
import gymnasium
import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import bidual as bd
from bidual._base.archive import digest
from bidual.models import SETS, Tabular
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import Simulator

RIVER = riverswim(budget=2.5, states=3, horizon=5)
EVALUATION = 30  # simulators run up to 32 episodes in one compiled call: other numbers would compile others


def river(model=None, env=RIVER.mdp, **arguments):
    arguments = {"episodes": 40, "evaluation": EVALUATION, "seed": 1, **arguments}
    return bd.learn(RIVER.problem, env, model or Tabular(RIVER.mdp), **arguments)


class Walk(gymnasium.Env):
    """Right (1) leads from 0 to 1 with probability 0.7, and from there out, which pays; left (0) leads back."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, pays):
        self.pays, self.place = pays, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        right = action == 1 and self.np_random.random() < 0.7
        out = right and self.place == 1
        self.place = int(right)
        return self.place, self.pays(self.np_random) if out else 0.0, out, False, {}


def walk(pays=lambda rng: 0.8, **options):
    """The end of an episode is a third state."""
    reward, right = bd.features.observed(lambda step: step.reward, **options), np.array([[0.0, 1.0]] * 3)
    x = bd.features.signals(reward=reward, right=right).embedding(5)
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"right": cp.sum(x.right) <= 4.0})
    model = Tabular([[[0, -1], [0, 1]], [[0, -1], [0, 2]], [[2, -1], [2, -1]]])
    return bd.learn(problem, Walk(pays), model, episodes=30, evaluation=20, seed=4)


def other(objective, limits=None, mdp=RIVER.mdp, **arguments):
    """Another problem in the same river."""
    arguments = {"episodes": 40, "evaluation": EVALUATION, "seed": 1, **arguments}
    return bd.learn(bd.Problem(objective, limits or {}), mdp, Tabular(mdp), **arguments)


X = RIVER.problem.embedding
REWARD, RIGHT = cp.sum(X.reward), cp.sum(X.right)
CURVED = (
    cp.Minimize(cp.norm(cp.hstack([REWARD - 1.0, RIGHT - 2.0]))),
    {"right": RIGHT <= 2.5, "x": cp.square(RIGHT) <= 9},
)


def every_kind(total):
    """Signals that change with the step and that are paid on arrival, and visits."""
    rng = np.random.default_rng(0)
    return RIVER.mdp.embedding(total=total, visits=True, a=rng.random((5, 3, 2)), b=rng.random((3, 2, 3)))


Y, Z = every_kind(total=True), every_kind(total=False)


RESULTS = {
    **{name: lambda name=name: river(Tabular(RIVER.mdp, set=name), episodes=16) for name in SETS},
    "ball": river,
    "nothing declared": lambda: river(Tabular(), Simulator(RIVER.mdp, hidden_start=True), episodes=16),
    "counts of every step": lambda: river(Tabular(RIVER.mdp, stationary=False), episodes=16),
    "signals of every kind": lambda: other(cp.Maximize(Y.a), {"b": Y.b <= 3.0, "there": Y.visits[1:] >= 0.5}),
    "observed": walk,
    "observed at the end": lambda: walk(at_end=True),
    "noisy": lambda: walk(lambda rng: float(rng.random()), noisy=True),
    "unsteady": lambda: walk(lambda rng: float(rng.random())),
    "convex": lambda: other(*CURVED, episodes=16),
    "convex of many numbers": lambda: other(cp.Minimize(cp.sum_squares(Z.visits - 0.3)), episodes=16),
    "equality": lambda: other(cp.Maximize(REWARD), {"right": RIGHT == 2.0, "each": X.right <= 0.9}),
    "infeasible": lambda: other(cp.Maximize(REWARD), {"less": RIGHT <= 2.0, "more": RIGHT >= 3.0}),
    "infeasible and convex": lambda: other(
        cp.Minimize(REWARD), {"less": cp.square(RIGHT) <= 4.0, "more": RIGHT >= 3.0}
    ),
    "no evaluation": lambda: river(evaluation=0),
    "no evaluation, convex": lambda: other(*CURVED, episodes=16, evaluation=0),
    "two rounds": lambda: made("ball").certify(EVALUATION),
    "two rounds, convex": lambda: made("convex").certify(EVALUATION),
    "first evaluated later": lambda: made("no evaluation").certify(EVALUATION),
    "optimal": lambda: other(cp.Maximize(REWARD), episodes=200, stop_when=bd.stop_when(gap=3.0)),
}


@cache
def made(name):
    return RESULTS[name]()


@pytest.fixture
def saved(tmp_path):
    """Saves a result by its name."""

    def save(name="ball"):
        target = tmp_path / "x.bidual"
        made(name).save(target)
        return target

    return save


def _rewrite(path, change):
    """Change manifest and arrays as a forger would: with a checksum that fits again."""
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = json.loads(archive.read("manifest.json")), load_arrays(archive.read("arrays.safetensors"))
    manifest.pop("sha256")
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(manifest, arrays)
    _write(path, manifest, save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def _write(path, manifest, blob):
    manifest["sha256"] = digest(manifest, blob)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", blob)


def _read(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json")), archive.read("arrays.safetensors")


# What comes back.


@pytest.mark.parametrize("name", RESULTS)
def test_the_check_derives_the_same_numbers(name, saved):
    result, path = made(name), saved(name)
    check, written = bd.check(path), json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert check.claims == {key: written[key] for key in check.claims}
    assert set(written) - set(check.claims) == {
        "seconds",
        "candidates",
    }  # how long it took, and what the counts say anew
    assert check.episodes == result.outputs[0].episodes
    loaded = bd.load(path)
    np.testing.assert_array_equal(loaded.table, result.policy.table)
    assert loaded.reset(0).act(0) in (0, 1)


def test_the_results_here_are_of_many_kinds(saved):
    """Else the tests below would say little."""
    assert {str(made(name).status) for name in RESULTS} == {"undecided", "feasible", "infeasible", "optimal"}
    for name, side, known in [
        ("ball", "upper", True),
        ("unsteady", "upper", False),
        ("noisy", "upper", True),
        ("no evaluation", "lower", False),
        ("convex", "upper", True),
        ("convex", "lower", True),
        ("convex of many numbers", "upper", False),
        ("infeasible", "upper", False),
    ]:
        assert (getattr(made(name), side) is not None) == known, name
    two = made("two rounds")
    assert two.lower > made("ball").lower
    assert two.outputs[0].episodes == 2 * EVALUATION
    assert [len(_read(saved(name))[0]["rounds"]) for name in ("ball", "two rounds", "no evaluation")] == [1, 2, 0]


def test_the_same_result_gives_the_same_bytes(tmp_path):
    for name in ("ball", "convex"):
        for path, result in (("a", made(name)), ("b", made(name)), ("c", RESULTS[name]())):
            result.save(tmp_path / path)
        assert len({(tmp_path / path).read_bytes() for path in "abc"}) == 1
    manifest, _ = _read(tmp_path / "a")
    assert "seconds" not in manifest["claims"]
    replace(made("convex"), seconds=1e9).save(tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == (tmp_path / "a").read_bytes()


def test_parameters_may_change_before_a_result_is_saved(saved):
    before = saved().read_bytes()
    with RIVER.problem.holding({"budget": 1.0}):
        path = saved()
    assert path.read_bytes() == before
    assert bd.check(path).claims["constraints"][0]["limit"] == 2.5


def test_a_check_reads_well(saved):
    text = str(bd.check(saved()))
    for words in (
        "check passed: undecided, with probability 0.95",
        "rests on 30 fresh episodes of this policy",
        "taken for granted",
        "counts and samples in the file are what was seen",
    ):
        assert words in text
    assert "estimated and not certified" in str(bd.check(saved("no evaluation")))
    assert "no bound on what this policy violates is claimed" in str(bd.check(saved("no evaluation")))
    assert "prove that no policy keeps all constraints" in str(bd.check(saved("infeasible")))


def test_a_folder_holds_its_solution(tmp_path):
    made("ball").save(tmp_path / "run" / "solution.bidual")
    assert bd.check(tmp_path / "run").claims["status"] == "undecided"
    np.testing.assert_array_equal(bd.load(str(tmp_path / "run")).table, made("ball").policy.table)
    for read in (bd.load, bd.check):
        with pytest.raises(bd.ArchiveError, match=r"solution\.bidual is not a file"):
            read(tmp_path)


@pytest.mark.parametrize("read", [bd.load, bd.check])
def test_a_file_of_another_kind_is_named(saved, read):
    path = saved()
    _rewrite(path, lambda m, a: m.update(kind="checkpoint"))
    with pytest.raises(bd.ArchiveError, match="holds a checkpoint, not a"):
        read(path)
    _rewrite(path, lambda m, a: m.update(kind="solution"))
    if read is bd.check:
        with pytest.raises(bd.ArchiveError, match="not a complete solution"):
            read(path)


def test_a_result_without_its_run_cannot_be_saved(tmp_path):
    with pytest.raises(bd.ProblemError, match="does not know its problem"):
        replace(made("ball"), _session=None).save(tmp_path / "x")


def test_functions_of_signals_are_not_stored(saved):
    manifest, blob = _read(saved("observed"))
    assert b"lambda" not in blob
    assert "lambda" not in json.dumps(manifest)
    assert manifest["model"]["observed"] == [[0, 0.0, 1.0, False, False]]


def test_a_value_that_is_no_number_is_none(tmp_path):
    """The logarithm of what no policy can reach."""
    result = other(cp.Maximize(cp.log(REWARD - 4.0)), episodes=16)
    assert not math.isfinite(result.value)
    assert result.to_dict()["value"] is None
    result.save(tmp_path / "x")
    assert bd.check(tmp_path / "x").claims["value"] is None


# Claims.


@pytest.mark.parametrize("name", ["ball", "infeasible", "no evaluation", "optimal", "unsteady"])
@pytest.mark.parametrize("claim", ["value", "lower", "upper", "gap", "status", "constraints"])
def test_a_false_claim_fails_the_check(name, claim, saved):
    path = saved(name)
    before = _read(path)[0]["claims"][claim]
    stronger = -1e-6 if claim in ("upper", "gap") else 1e-6
    lies = [before + stronger if isinstance(before, float) else 0.123, *([] if before is None else [None])]
    lies += [math.nan, math.inf, "0.5", 10**400] if name == "ball" else []
    lies += ["optimal", "feasible", "undecided", "infeasible"] if claim == "status" else []
    lies += [[], [{}]] if claim == "constraints" else []
    for lie in lies:
        if lie == before:
            continue
        _rewrite(path, lambda m, a, lie=lie: m["claims"].update({claim: lie}))
        # A higher upper bound is weaker, but then the gap is another one as well.
        with pytest.raises(
            bd.CertificateError, match=f"claims ({claim}|gap)" if claim == "upper" else f"claims {claim}"
        ):
            bd.check(path)


@pytest.mark.parametrize("name", ["ball", "equality", "no evaluation"])
@pytest.mark.parametrize("key", ["name", "sense", "value", "limit", "violation", "violation_upper"])
def test_a_false_constraint_fails_the_check(name, key, saved):
    path = saved(name)
    for lie in (-1.0, "x") if name == "ball" else (-1.0,):
        _rewrite(path, lambda m, a, lie=lie: m["claims"]["constraints"][0].update({key: lie}))
        with pytest.raises(bd.CertificateError, match=f"claims constraints {key}"):
            bd.check(path)


@pytest.mark.parametrize("claim", ["value", "lower", "upper", "gap", "status"])
def test_a_false_claim_of_a_convex_problem_fails_the_check(claim, saved):
    path = saved("convex")
    _rewrite(path, lambda m, a: m["claims"].update({claim: "optimal" if claim == "status" else 1.2}))
    with pytest.raises(bd.CertificateError, match=f"claims {claim}"):
        bd.check(path)


def test_prices_are_told(saved):
    """They are those of the learned model, and no part of what is certain."""
    path = saved()
    assert 0 < made("ball").constraints[0].price < 7
    _rewrite(path, lambda m, a: m["claims"]["constraints"][0].update(price=7.0))
    assert bd.check(path).claims["constraints"][0]["price"] == 7.0


def test_the_other_sense_fails_the_check(saved):
    path = saved()
    _rewrite(path, lambda m, a: m["claims"].update(sense="minimize"))
    with pytest.raises(bd.CertificateError, match="claims value"):
        bd.check(path)


# Evidence, with claims as they were.


def _times(name, factor):
    def change(manifest, arrays):
        arrays[name] *= factor

    return change


def _plus(name, *amounts):
    def change(manifest, arrays):
        arrays[name] += np.array(amounts)

    return change


def _put(key, value):
    def change(manifest, arrays):
        manifest[key] = value

    return change


def _without(*names):
    def change(manifest, arrays):
        for name in names:
            del arrays[name]

    return change


def _ten_times_the_episodes(manifest, arrays):
    manifest["claims"]["episodes"] = 700
    arrays["transitions"] *= 10
    arrays["starts"] *= 10


def _other_successors(manifest, arrays):
    arrays["transitions"] = arrays["transitions"][..., ::-1].copy()
    arrays["successors"] = arrays["successors"].copy()
    empty = arrays["successors"] == -1
    arrays["transitions"][0, ..., 0] += np.where(empty, arrays["transitions"][0], 0).sum(axis=-1)
    arrays["transitions"][0][empty] = 0


def _one_episode_more(manifest, arrays):
    arrays["paid_0"] = np.concatenate([arrays["paid_0"], arrays["paid_0"][-1:]])


def _one_sample_outside(manifest, arrays):
    arrays["paid_0"][3, 0] = arrays["high"][0] + 1.0


def _claim_samples(manifest, arrays):
    """Samples moved, and the claimed value with them: what they prove moves too."""
    arrays["paid_0"][:, 0] -= 0.01
    manifest["claims"]["value"] += 0.01


def _as_if_linear(manifest, arrays):
    """The objective, which is curved, with samples of its own."""
    arrays["numbers"] = np.array([0, *arrays["numbers"]])
    for name in ("low", "high"):
        arrays[name] = np.concatenate([arrays["image_" + name][:1], arrays[name]])
    arrays["paid_0"] = np.concatenate([arrays["image_0"][:, :1], arrays["paid_0"]], axis=1)


def _only_the_objective(manifest, arrays):
    for name in ("numbers", "low", "high"):
        arrays[name] = arrays[name][:1]
    arrays["paid_0"] = arrays["paid_0"][:, :1]


def _one_round(manifest, arrays):
    for name in ("rounds", "policies", "uniform"):
        manifest[name] = manifest[name][:1]


def _model(**entries):
    return lambda manifest, arrays: manifest["model"].update(entries)


def _signal(place, value):
    return lambda manifest, arrays: manifest["model"]["observed"][0].__setitem__(place, value)


FORGED = {
    # name: (result, change, error, words)
    "counts": ("ball", _ten_times_the_episodes, bd.CertificateError, "claims upper"),
    "counts that do not add up": ("ball", _times("transitions", 10), bd.ArchiveError, "more or fewer steps"),
    "counts of other successors": ("ball", _other_successors, bd.CertificateError, "claims upper"),
    "samples": ("ball", _times("paid_0", 0.99), bd.CertificateError, "claims (value|lower)"),
    "samples and the value": ("ball", _claim_samples, bd.CertificateError, "claims lower"),
    "one sample more": ("ball", _one_episode_more, bd.CertificateError, "claims (value|lower)"),
    "a sample outside": ("ball", _one_sample_outside, bd.CertificateError, r"no episode leaves \["),
    "a lower end": ("ball", _plus("low", 0.01, 0.0), bd.CertificateError, r"functional 0 is stated to lie in \["),
    "an upper end": ("ball", _plus("high", 0.0, -0.01), bd.CertificateError, r"functional 1 is stated to lie in \["),
    "wider ends": ("ball", _plus("high", 1.0, 1.0), bd.CertificateError, "claims (lower|upper)"),
    "a constraint left out": ("ball", _only_the_objective, bd.CertificateError, "no samples of functional 1"),
    "delta": ("ball", lambda m, a: m["claims"].update(delta=0.01), bd.CertificateError, "claims (lower|upper)"),
    "delta of the model": (
        "no evaluation",
        lambda m, a: m["claims"].update(delta=0.01),
        bd.CertificateError,
        "claims upper",
    ),
    "the number of a round": ("ball", _put("rounds", [2]), bd.CertificateError, "claims lower"),
    "the same number": ("two rounds", _put("rounds", [1, 1]), bd.CertificateError, "the same number"),
    "a round left out": ("two rounds", _one_round, bd.CertificateError, "claims value"),
    "multipliers": ("ball", _times("gamma", 1.5), bd.CertificateError, "claims upper"),
    "a negative multiplier": ("ball", _times("gamma", -1.0), bd.CertificateError, "negative"),
    "a proof of something else": ("ball", _put("objective_weight", 0.0), bd.CertificateError, "sum to 1"),
    "a proof with another weight": ("ball", _put("objective_weight", 0.5), bd.CertificateError, "weight 0 or 1"),
    "no proof": ("ball", _put("objective_weight", None), bd.CertificateError, "claims upper"),
    "a proof of a clash": ("infeasible", _times("gamma", 1.5), bd.CertificateError, "sum to 1"),
    "a limit": ("ball", _times("problem_limits", 1.01), bd.CertificateError, "states the limit"),
    "a limit as told": (
        "ball",
        lambda m, a: m["lines"][0].__setitem__(3, [2.6]),
        bd.CertificateError,
        "states the limit",
    ),
    "a limit, not evaluated": (
        "no evaluation",
        _times("problem_limits", 1.01),
        bd.CertificateError,
        "states the limit",
    ),
    "the objective": ("ball", _times("problem_objective", 1.01), bd.CertificateError, "functional 0 is stated to lie"),
    "features": ("ball", _times("stage", 1.01), bd.CertificateError, "is stated to lie in"),
    "smaller features": ("ball", _times("stage", 0.5), bd.CertificateError, "no episode leaves"),
    "another set": ("ball", _model(set="box"), bd.CertificateError, "claims upper"),
    "fewer possible states": (
        "nothing declared",
        _model(open=False),
        bd.BidualError,
        "claims upper|no successor",
    ),
    "fewer episodes": ("ball", lambda m, a: m["claims"].update(episodes=39), bd.CertificateError, "claims episodes"),
    "a goal": ("optimal", _put("goal", 1e-6), bd.CertificateError, "claims status"),
    "a guess": ("no evaluation", _times("embedding", 1.01), bd.CertificateError, "claims value"),
    "a signal that varies": (
        "observed",
        lambda m, a: a["steady"].fill(False),
        bd.CertificateError,
        "claims upper = .* derives None",
    ),
    "a signal that pays more": ("observed", _times("sums", 2.0), bd.ArchiveError, "outside the bounds"),
    "a signal that paid less": ("observed", _times("sums", 0.5), bd.CertificateError, "claims upper"),
    "bounds of a signal": (
        "observed",
        _signal(2, 2.0),
        bd.CertificateError,
        "functional 0 is stated to lie in",
    ),
    "a noisy signal": (
        "noisy",
        _signal(3, False),
        bd.CertificateError,
        "claims upper",
    ),
    "a mean embedding": ("convex", _times("embedding_0", 1.01), bd.CertificateError, "two accounts"),
    "images": ("convex", _times("image_0", 0.99), bd.CertificateError, "two accounts"),
    "ranges of images": ("convex", _times("image_low", 0.99), bd.CertificateError, "number . is stated to lie in"),
    "a curved function": ("convex", _as_if_linear, bd.CertificateError, "functional 0 is not linear"),
    "no corners": ("convex", _without("image_low", "image_high", "image_0"), bd.CertificateError, "claims"),
    "a convex problem's multipliers": ("convex", _times("gamma", 1.01), bd.CertificateError, "dual cone|claims lower"),
    "a convex problem's image": ("convex", _times("problem_image_values", 1.01), bd.CertificateError, "to lie in"),
    "a convex problem's limit": (
        "convex",
        lambda m, a: m["lines"][0].__setitem__(3, [2.6]),
        bd.CertificateError,
        r"states constraint 'right' as <= \[2\.6\], but its expression",
    ),
    "a mean of many numbers": (
        "convex of many numbers",
        _times("embedding_0", 1.01),
        bd.CertificateError,
        "claims value",
    ),
}


# Evidence that proves more than the file claims: what it claims then follows all the more. Evidence itself is taken for
# granted, as every check prints.
PROVE_MORE = (
    *("counts", "counts of other successors", "samples and the value"),
    *("another set", "a signal that paid less"),
)


@pytest.mark.parametrize("forgery", FORGED)
def test_forged_evidence_fails_the_check(forgery, saved):
    name, change, error, words = FORGED[forgery]
    path = saved(name)
    _rewrite(path, change)
    if forgery in PROVE_MORE:
        assert "check passed" in str(bd.check(path))
        return
    with pytest.raises(error, match=words):
        bd.check(path)


def _set(name, place, value):
    def change(manifest, arrays):
        arrays[name][place] = value

    return change


def _replaced(name, function):
    def change(manifest, arrays):
        arrays[name] = function(arrays[name])

    return change


def _impossible_step(manifest, arrays):
    """A transition of an entry that only pads a list, taken from one that does not."""
    places = np.argwhere(arrays["successors"] == -1)
    arrays["transitions"][(0, *places[0])] += 1
    arrays["transitions"][0, 0, 1, 0] -= 1


def _forbidden(manifest, arrays):
    """After the end only one action is allowed, and the policy takes the other one."""
    arrays["allowed"][2, 1] = False
    arrays["policy"][:, 2] = [0.0, 1.0]


DAMAGED = {
    # name: (result, change, words)
    "NaN in samples": ("ball", _set("paid_0", (3, 0), math.nan), "paid_0 contains NaN or infinity"),
    "infinite samples": ("ball", _set("paid_0", (3, 0), math.inf), "paid_0 contains NaN or infinity"),
    "NaN in images": ("convex", _set("image_0", (3, 0), math.nan), "image_0 contains NaN or infinity"),
    "NaN in a mean": ("convex", _set("embedding_0", (0, 0), math.nan), "embedding_0 contains NaN or infinity"),
    "NaN in a limit": ("ball", _set("problem_limits", 0, math.nan), "NaN or infinity"),
    "NaN in a limit as told": ("ball", lambda m, a: m["lines"][0].__setitem__(3, [math.nan]), "NaN or infinite"),
    "NaN in features": ("ball", _set("stage", (0, 0, 0, 0), math.nan), "stage contains NaN or infinity"),
    "NaN in multipliers": ("ball", _set("gamma", 0, math.nan), "gamma contains NaN or infinity"),
    "NaN in a policy": ("ball", _set("policy", (0, 0, 0), math.nan), "no policy"),
    "a policy that does not add up": ("ball", _times("policy", 1.001), "no policy"),
    "a policy that does what it may not": ("observed", _forbidden, "an action that its state does not allow"),
    "a negative count": ("ball", _set("transitions", (0, 0, 0, 0), -1.0), "negative or not whole"),
    "half a count": ("ball", _plus("starts", 0.5, -0.5, 0.0), "negative or not whole"),
    "a count too many": ("ball", _plus("starts", 1.0, 0.0, 0.0), "more or fewer steps"),
    "a count where nothing is": ("ball", _impossible_step, "a transition was counted that cannot be"),
    "a start that cannot be": ("ball", _plus("starts", -1.0, 1.0, 0.0), "an episode began where"),
    "counts of so many steps": ("ball", _replaced("transitions", lambda t: np.repeat(t, 2, 0)), "more or fewer steps"),
    "single precision": ("ball", _replaced("paid_0", np.float32), "paid_0 is float32"),
    "truth values": ("ball", _replaced("numbers", lambda n: n > 0), "numbers is bool"),
    "another shape": ("ball", _replaced("paid_0", np.transpose), "paid_0 is float64 of shape"),
    "no episodes": ("ball", _replaced("paid_0", lambda paid: paid[:0]), "round 1 has 0 episodes"),
    "multipliers missing": ("ball", _replaced("gamma", lambda gamma: gamma[:0]), "gamma is float64 of shape"),
    "no samples": ("ball", _without("paid_0"), "paid_0"),
    "no ranges": ("ball", _without("low"), "low"),
    "successors out of range": ("ball", _set("successors", (0, 0, 0), 3), "successors contains a number outside"),
    "a successor twice": ("ball", _set("successors", (0, 1, 1), 0), "listed twice"),
    "functionals out of order": ("ball", _replaced("numbers", lambda n: n[::-1].copy()), "not in their order"),
    "functionals that are none": ("ball", _plus("numbers", 0, 1), "numbers contains a number outside"),
    "round 0": ("ball", _put("rounds", [0]), "round 0"),
    "round one and a half": ("ball", _put("rounds", [1.5]), "is no int"),
    "a round of astronomic number": ("ball", _put("rounds", [10**400]), "there is no round 1000"),
    "a set of another name": ("ball", _model(set="sphere"), "there is no set 'sphere'"),
    "another successor of the end": ("observed", _set("successors", (2, 0, 0), 1), "never left"),
    "a place that is none": ("observed", _signal(0, -1), "a place that is none"),
    "ends of a signal": ("observed", _signal(1, 2.0), "lies in"),
    "delta 0": ("ball", lambda m, a: m["claims"].update(delta=0.0), "strictly between 0 and 1"),
    "delta 1": ("ball", lambda m, a: m["claims"].update(delta=1), "is no float"),
    "a sense": ("ball", lambda m, a: m["claims"].update(sense="banana"), "sense 'banana'"),
    "a seed": ("ball", lambda m, a: m["claims"].update(seed=1.5), "seed is 1.5"),
    "a goal": ("optimal", _put("goal", math.inf), "the goal is a gap of inf"),
    "no claims": ("ball", _put("claims", {}), "status"),
    "constraints": ("ball", _put("lines", []), "constraints and rows do not match"),
    "a constraint divided in two": (
        "convex",
        lambda m, a: m["lines"].__setitem__(slice(None), [["right", "<=", 1.0, [2.5, 9.0]]]),
        "constraints and rows do not match",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_cannot_be_is_refused(damage, saved):
    name, change, words = DAMAGED[damage]
    path = saved(name)
    _rewrite(path, change)
    with pytest.raises(bd.ArchiveError, match=f"not a complete result of learning.*{words}"):
        bd.check(path)


def _refused(path):
    """Whether the file is refused; an error that is not ours goes through."""
    try:
        bd.check(path)
    except bd.BidualError:
        return True
    return False


def test_no_changed_byte_is_taken(saved, tmp_path):
    """Of the zip archive's own bytes some mean nothing (a date, for example): then nothing that is read has changed."""
    path, rng = saved(), random.Random(0)
    raw, before = path.read_bytes(), str(bd.check(path))
    taken = 0
    for _ in range(200):
        mutated, place = bytearray(raw), rng.randrange(len(raw))
        mutated[place] ^= rng.randrange(1, 256)
        path.write_bytes(mutated)
        if not _refused(path):
            taken += 1
            assert (str(bd.check(path)), _read(path)) == (before, _read(saved()))
    assert taken <= 10


def _some(**counts):
    """So many random changes in every run of the tests, and many more in long ones."""
    several = [pytest.param(name, 0, count, id=name) for name, count in counts.items()]
    many = [
        pytest.param(name, 1, 50 * count, id=f"{name}, long", marks=pytest.mark.slow) for name, count in counts.items()
    ]
    return pytest.mark.parametrize(("name", "seed", "count"), several + many)


@_some(ball=40, observed=20, convex=10)
def test_bytes_changed_by_a_forger_raise_nothing_else(name, seed, count, saved):
    """With a checksum that fits; a change in a last digit may be taken."""
    path, rng = saved(name), random.Random(seed)
    manifest, blob = _read(path)
    manifest.pop("sha256")
    refused = 0
    for _ in range(count):
        mutated, place = bytearray(blob), rng.randrange(len(blob))
        mutated[place] ^= rng.randrange(1, 256)
        _write(path, dict(manifest), bytes(mutated))
        refused += _refused(path)
    assert refused >= count // 3


STRANGE = (None, True, -1, 0.5, "x", [], {}, math.nan, math.inf, 10**400)


def _places(node, place=()):
    """Every place in a tree of JSON values."""
    if place:
        yield place
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from _places(inner, (*place, key))


@_some(**{"two rounds": 50, "noisy": 25, "convex": 20})
def test_strange_values_raise_nothing_else(name, seed, count, saved):
    path, rng = saved(name), random.Random(seed)
    manifest, blob = _read(path)
    manifest.pop("sha256")
    places = list(_places(manifest))
    for _ in range(count):
        strange = json.loads(json.dumps(manifest))
        *way, last = rng.choice(places)
        node = strange
        for key in way:
            node = node[key]
        node[last] = rng.choice(STRANGE)
        _write(path, strange, blob)
        _refused(path)


ODD = (
    lambda a: a.astype(np.float32),
    lambda a: a[..., None],
    lambda a: a[:0],
    lambda a: np.concatenate([a, a]),
    lambda a: np.full_like(a, 1e308 if a.dtype.kind == "f" else 1),
    lambda a: -a if a.dtype.kind == "f" else a[::-1],
)


@_some(**{"two rounds": 30, "noisy": 30, "convex": 15})
def test_odd_arrays_raise_nothing_else(name, seed, count, saved):
    path, rng = saved(name), random.Random(seed)
    manifest, blob = _read(path)
    manifest.pop("sha256")
    for _ in range(count):
        arrays = dict(load_arrays(blob))
        odd = rng.choice(list(arrays))
        arrays[odd] = np.ascontiguousarray(rng.choice(ODD)(np.atleast_1d(arrays[odd])))
        _write(path, dict(manifest), save_arrays(arrays))
        _refused(path)


@pytest.mark.parametrize("name", ["two rounds", "noisy", "convex"])
def test_every_array_is_needed(name, saved):
    path = saved(name)
    manifest, blob = _read(path)
    manifest.pop("sha256")
    for missing in load_arrays(blob).keys() - {"constants"}:  # which files of earlier versions lack
        _write(path, dict(manifest), save_arrays({n: a for n, a in load_arrays(blob).items() if n != missing}))
        assert _refused(path)
