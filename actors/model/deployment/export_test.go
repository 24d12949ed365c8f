package deployment

// Removed is what a deployment tells its group when nothing is left of it.
func Removed(name string, term uint64) any { return &removed{name, term} }
