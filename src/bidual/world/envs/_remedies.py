"""What to do with spaces that cannot be numbered: a line of code for each of the models that take them."""

_CONTROLS = "model = bd.models.KNR()  # vectors moved by actions, with signals from bd.features.computed(...)"
_LATENTS = "model = bd.models.Latent(latents=4)  # a few hidden states behind noisy vectors"
_STATES = "bd.learn(problem, env, states=lambda obs: int(obs[0] > 0), ...)  # a number for every observation"
_ACTIONS = (
    "env = gymnasium.wrappers.TransformAction(env, lambda a: [[-1.0], [1.0]][a], gymnasium.spaces.Discrete(2))"
    "  # discretise"
)


def describe_vectors() -> str:
    """Return the ways to learn from observations that are vectors of numbers."""
    return _list_lines("observations that are vectors can be learned with one of", _CONTROLS, _LATENTS, _STATES)


def describe_controls() -> str:
    """Return the ways to learn with actions that are vectors of numbers."""
    return _list_lines("actions that are vectors can be learned with one of", _CONTROLS, _ACTIONS)


def _list_lines(head: str, *lines: str) -> str:
    return "\n".join([f"{head}:", *(f"    {line}" for line in lines)])
