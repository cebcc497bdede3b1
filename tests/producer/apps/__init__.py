"""Services of others that enqueue: they make their fleet when they are imported, before anything forks."""
