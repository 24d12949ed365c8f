package schedule

// Revision is what a deployment asks for, or what a replica has, of a model's files.
type Revision struct {
	Digest string // empty: not known yet
	Deploy uint64 // the models.deploy that it is of
}

// Same reports whether a replica with the files that were found is one of those that are wanted.
func (want Revision) Same(found Revision) bool {
	if want.Digest != "" && found.Digest != "" {
		return want.Digest == found.Digest
	}
	return want.Deploy == found.Deploy
}

// FileVerdict is what becomes of a replica that has loaded its files.
type FileVerdict uint8

const (
	Ignore  FileVerdict = iota // it is of an earlier models.deploy, or says nothing of its files
	Record                     // its files are the first of this models.deploy: they make the revision
	Confirm                    // its files are the revision's: it may serve
	Reject                     // it has other files
)

// Judge compares the files that a replica has found with those that are wanted.
func Judge(want, found Revision) FileVerdict {
	switch {
	case found.Digest == "":
		return Ignore
	case want.Digest == found.Digest:
		return Confirm
	case want.Deploy != found.Deploy:
		return Ignore
	case want.Digest == "":
		return Record
	}
	return Reject
}
