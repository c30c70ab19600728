"""The composition root: typed configuration, and names turned into objects that work together."""
