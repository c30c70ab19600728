"""Learning who hurts whom: features, training, and inference on flat arrays.

`features` (the data), `flat`, `trees` and `degradation` (inference: pure, numpy and one kernel) may be used inside a
decision. `folds`, `factor`, `estimators`, `training` and `scores` learn, with scikit-learn behind them; `model_file`
writes and reads models. Nothing here knows of a scheduler or of the simulated machine.
"""
