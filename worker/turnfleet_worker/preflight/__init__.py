"""What a new build would do with the runs that have not ended, found out without doing any of it (DESIGN 5)."""
