"""Speed and memory, as figures and as ratios to a reference measured in the same run. Not tests: nothing here fails."""
