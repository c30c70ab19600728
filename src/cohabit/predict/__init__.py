"""Learn how much jobs slow each other, and when the machine is too noisy: data, training, and inference on flat arrays.

Inference may be used inside a decision (pure, numpy and one kernel module): `features`, `flat`, `trees`, `degradation`;
`variability_data`, `variability_flat`, `variability_calibration`, `variability`. Learning has scikit-learn behind it:
`folds`, `factor`, `estimators`, `training`, `scores`; `variability_learners`, `variability_training`,
`variability_scores`. `archive` is the file of any model, `model_file` and `variability_file` say what is in it. Nothing
here knows of a scheduler or of the simulated machine.
"""
