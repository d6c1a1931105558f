"""One file a paper: its experiments, and a row for each of its tables and figures."""
