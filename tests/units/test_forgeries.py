"""Files with a forged value or array and the right checksum: refused in plain words, or what they say is still true.

Every value of a manifest and every array is forged in many ways (`tests.forgeries`): some in the gate, and all in
`make test-all`. Other errors than those named here, and warnings, fail these tests.
"""

import numpy as np
import pytest

import bidual as bd
from bidual.certificate.verify import verify
from bidual.certificate.verify_convex import read_convex
from bidual.certificate.verify_learned import read_learned
from bidual.problem.features import computed, signal
from bidual.tasks.riverswim import riverswim
from tests.forgeries import choose, forge, look_up, read_parts, write_parts
from tests.golden.record import FILES

RIVER = riverswim(budget=2.5, states=3, horizon=5)
SIGNALS = computed(  # of the golden run
    distance=signal(lambda x, u, y: x[0] ** 2, 0.0, 4.0), effort=signal(lambda x, u, y: u @ u, 0.0, 4.0)
)
KINDS = ("known", "convex", "corrective", "class", "linear", "controls", "controls-policy", "receding", "latent")
DECIDED = ("known", "convex", "corrective")  # by the exact verifier
few_or_all = pytest.mark.parametrize("count", [12, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "all"])
pytestmark = pytest.mark.unchecked_shapes(reason="the subject is what readers refuse by themselves")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The parts of a file of each kind."""
    known = tmp_path_factory.mktemp("known") / "known.bidual"
    bd.solve(RIVER.problem, RIVER.mdp).save(known)
    return lambda kind: read_parts(known if kind == "known" else FILES / f"{kind}.bidual")


def forged_files(parts, path, seed, count):
    """Write one forged file after the other; yield what was forged."""
    for what, make in choose(forge(*parts), seed, count):
        with np.errstate(all="ignore"):
            forged = make()
        write_parts(path, *forged)
        yield what


def _decide(path):
    """Return the verdicts of the exact verifier, which reads no numbers of fewer bits and none without a sign."""
    try:
        return {verdict for verdict, *_ in verify(str(path), convex=read_convex, learned=read_learned)}
    except ValueError as error:
        assert "is not readable" in str(error)  # noqa: PT017 - it may also be read
        return set()


@few_or_all
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_forged_file_claims_is_refused_or_true(whole, tmp_path, kind, count):
    """By the word of the exact verifier, which shares no code with the checker."""
    path, passed = tmp_path / "forged.bidual", 0
    for what in forged_files(whole(kind), path, KINDS.index(kind), count):
        try:
            bd.check(path)
        except (bd.ArchiveError, bd.CertificateError):
            continue
        passed += 1
        if kind in DECIDED:
            assert "refuted" not in _decide(path), what
    assert passed or count or kind in ("controls-policy", "latent")  # these claim nothing


@few_or_all
@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_of_a_forged_file_is_refused_or_acts(whole, tmp_path, kind, count):
    path = tmp_path / "forged.bidual"
    for what in forged_files(whole(kind), path, 100 + KINDS.index(kind), count):
        try:
            policy = bd.load(path, features=SIGNALS if kind == "receding" else None)
        except bd.ArchiveError:
            continue
        H, S, A = policy.shape
        vectors = kind in ("controls", "controls-policy", "receding")
        actor = policy.reset(0)
        for _ in range(0 if kind == "receding" else H):  # which would compile
            action = actor.act(
                np.zeros(policy.decoder.dimension) if kind == "latent" else np.zeros(S) if vectors else 0
            )
            assert np.shape(action) == (A,) if vectors else 0 <= action < A, what


def test_multipliers_of_other_rows_are_refused(whole, tmp_path):
    manifest, arrays = whole("known")
    write_parts(tmp_path / "forged.bidual", manifest, arrays | {"gamma": arrays["gamma"][:0]})
    with pytest.raises(bd.ArchiveError, match=r"multipliers of shape \(0,\) for 1 rows"):
        bd.check(tmp_path / "forged.bidual")


def test_samples_that_no_episode_can_pay_prove_nothing(whole, tmp_path):
    """The objective is 0 whatever happens, but the samples say that it is 0.56, in a range that holds them."""
    manifest, arrays = whole("corrective")
    path = tmp_path / "forged.bidual"
    arrays["problem_objective"] = 0 * arrays["problem_objective"]
    write_parts(path, manifest, arrays)
    with pytest.raises(bd.CertificateError, match=r"functional 0 is .* but no episode leaves \[0.0, 0.0\]"):
        bd.check(path)


UNFIT = {  # a policy, and what its file is changed to
    "latent means whose squares are no numbers": (
        "latent",
        (),
        lambda arrays: {"means": 1e300 * (1 + arrays["means"])},
    ),
    "fewer means than weights": ("latent", (), lambda arrays: {"means": arrays["means"][:, :1]}),
    "a plan beyond single precision": ("receding", (), lambda arrays: {"9": arrays["9"] + 1e300}),
    "members of two kinds": ("controls-policy", ("members", 0, "discrete"), lambda _: {}),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_policy_whose_parts_do_not_fit_is_refused(whole, tmp_path, name):
    """They were loaded, and acted on overflows, ended in an error of NumPy, or chose numbers and vectors in turn."""
    kind, place, change = UNFIT[name]
    manifest, arrays = whole(kind)
    if place:
        look_up(manifest, place[:-1])[place[-1]] = True
    write_parts(tmp_path / "forged.bidual", manifest, arrays | change(arrays))
    with pytest.raises(bd.ArchiveError, match="holds no policy"):
        bd.load(tmp_path / "forged.bidual", features=SIGNALS if kind == "receding" else None)
