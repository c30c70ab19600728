"""The compiled pass for machines whose nodes are interchangeable and given out whole."""
