"""The benchmark's problems as Storm takes them: a sparse model, and one multi-objective query with step bounds.

Storm answers with a number; for such queries it gives neither bounds nor a scheduler. Where every state is a start, one
state is added in front of them, and a step to the horizon.
"""

from typing import Any, final

import numpy as np
import stormpy  # pyright: ignore[reportMissingImports]
import stormpy.datastructures  # pyright: ignore[reportMissingImports]
import stormpy.environments  # pyright: ignore[reportMissingImports]
import stormpy.models  # pyright: ignore[reportMissingImports]

import bidual as bd

_PRECISION = "1/1000000"  # absolute; Storm's own default is 1e-4


@final
class StormQuery:
    """A model with named signals in Storm, and the query for the largest reward within limits of costs."""

    def __init__(
        self, mdp: bd.TabularMDP, reward: np.ndarray, costs: dict[str, np.ndarray], limits: list[float]
    ) -> None:
        start = np.flatnonzero(mdp.initial)
        added = int(start.size > 1)
        horizon, self.initial = mdp.horizon + added, 0 if added else int(start[0])
        labels = stormpy.models.StateLabeling(mdp.num_states + added)
        labels.add_label("init")
        labels.add_label_to_state("init", self.initial)
        rewards = {
            name: stormpy.models.SparseRewardModel(
                optional_state_action_reward_vector=[0.0] * added + signal.ravel().tolist()
            )
            for name, signal in {"reward": reward, **costs}.items()
        }
        self.model: Any = stormpy.models.SparseMdp(
            stormpy.models.SparseModelComponents(
                transition_matrix=_build_matrix(mdp, added), state_labeling=labels, reward_models=rewards
            )
        )
        parts = [f'R{{"reward"}}max=? [C<={horizon}]']
        parts += [f'R{{"{name}"}}<={limit!r} [C<={horizon}]' for name, limit in zip(costs, limits, strict=True)]
        self.query = stormpy.parse_properties(f"multi({', '.join(parts)})")[0]
        self.environment = stormpy.Environment()
        settings = self.environment.modelchecker().multi()
        settings.precision = stormpy.environments.Rational(_PRECISION)
        settings.precision_type = stormpy.environments.MultiObjectivePrecisionType.ABSOLUTE

    def __call__(self) -> float:
        """Return the optimum that Storm finds."""
        answer = stormpy.model_checking(self.model, self.query, environment=self.environment)
        return float(answer.get_value(self.initial))


def _build_matrix(mdp: bd.TabularMDP, added: int) -> Any:  # noqa: ANN401 - Storm's types are not declared
    """Build the matrix row by row, with every successor of a row once, in order."""
    S, A = mdp.num_states, mdp.num_actions
    builder = stormpy.datastructures.SparseMatrixBuilder(
        rows=S * A + added,
        columns=S + added,
        entries=0,
        force_dimensions=False,
        has_custom_row_grouping=True,
        row_groups=S + added,
    )
    if added:
        builder.new_row_group(0)
        for state in np.flatnonzero(mdp.initial):
            builder.add_next_value(0, int(state) + 1, float(mdp.initial[state]))
    rows = zip(
        mdp.successors.states[0].reshape(S * A, -1), mdp.successors.probabilities[0].reshape(S * A, -1), strict=True
    )
    for i, (states, probabilities) in enumerate(rows):
        if i % A == 0:
            builder.new_row_group(i + added)
        entries: dict[int, float] = {}
        for state, probability in zip(states.tolist(), probabilities.tolist(), strict=True):
            entries[state] = entries.get(state, 0.0) + probability
        for state in sorted(entries):
            builder.add_next_value(i + added, state + added, entries[state])
    return builder.build()
