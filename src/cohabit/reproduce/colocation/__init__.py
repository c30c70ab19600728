"""Intelligent Colocation (SBAC-PAD 2019): models, queues and overheads I7 to I34, brackets, sensitivity."""
