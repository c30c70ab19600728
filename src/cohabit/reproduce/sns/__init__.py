"""Spread-n-Share (SC 2019): its experiments S44 to S62, ablations, and the honesty rules of the specification's 5.6."""
