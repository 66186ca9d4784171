"""One task of controls, learned on one core: a program for another process, whose cores are counted at its imports."""

import os


def main():
    """Plan with descents, which take eigenvalues in compiled loops; print how many episodes were run."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    import cvxpy as cp

    import bidual as bd
    from bidual.planners import control
    from bidual.problem.features import computed, linear, signal
    from tests.control_envs import Slider

    x = computed(distance=signal(lambda x, u, y: x[0] ** 2, 0.0, 4.0)).embedding(4, total=True)
    explorer = bd.explorers.Controls(control.Mean(), control.Descent(1), control.Mpc(), rollouts=2)
    settings = {"episodes": 1, "evaluation": 0, "explorer": explorer}
    problem, model = bd.Problem(cp.Minimize(x.distance)), bd.models.KNR(linear(), noise=0.02)
    print(bd.learn(problem, Slider(), model, **settings).episodes)


if __name__ == "__main__":
    main()
