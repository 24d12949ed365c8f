package schedule

// Revision identifies the model files that a deployment wants, or that a replica loaded.
type Revision struct {
	Digest string // empty: not known yet
	Deploy uint64 // number of the models.deploy command
}

// Same reports whether a replica with the found revision is one of the wanted replicas.
func (want Revision) Same(found Revision) bool {
	if want.Digest != "" && found.Digest != "" {
		return want.Digest == found.Digest
	}
	return want.Deploy == found.Deploy
}

// FileVerdict is what happens to a replica that loaded its files.
type FileVerdict uint8

const (
	Ignore  FileVerdict = iota // the files are of an earlier models.deploy, or unknown
	Record                     // the files are the first of this models.deploy and become the revision
	Confirm                    // the files are those of the revision; the replica may serve
	Reject                     // the files differ from the revision
)

// Judge compares the revision that a replica found with the wanted one.
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
