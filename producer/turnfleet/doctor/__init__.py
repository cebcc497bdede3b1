"""A diagnosis of a fleet: facts are gathered (`look`), judged (`judge`, pure), and told as findings (`findings`)."""
