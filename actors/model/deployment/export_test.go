package deployment

// Removed returns the message by which a deployment reports to its group that nothing is left of
// it.
func Removed(name string, term uint64) any { return &removed{name, term} }
