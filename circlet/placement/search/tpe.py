"""The tree-structured Parzen estimator, by optuna."""

from __future__ import annotations

import numpy as np

from circlet.placement.search.drive import Strategy
from circlet.placement.search.space import Space

_FAILED = 1e30  # trials that fail are the worst there is; optuna's estimator knows no infinity


def tpe(space: Space, seed: int = 0) -> Strategy:
    """One genome at a time, each gene a category of its own."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=10)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    settings = list(range(len(space.problems)))
    backends = list(range(len(space.backends)))
    while True:
        trial = study.ask()
        genes = [trial.suggest_categorical("setting", settings)]
        genes += [
            trial.suggest_categorical(f"gene {number}", backends)
            for number in range(len(space.genes))
        ]
        (point,) = yield [space.mended(genes)]
        study.tell(trial, [float(value) for value in np.minimum(point, _FAILED)])
