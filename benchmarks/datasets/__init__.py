"""Public data sets, turned into haystacks."""
