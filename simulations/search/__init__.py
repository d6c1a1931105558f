"""ATS policy search: the work around fedpriv.policies."""
