package engine

import (
	"fmt"

	"troupe/modelfile/digest"
)

// RevisionMismatch is the error for files whose digest is not that of the wanted revision.
type RevisionMismatch struct {
	Path  string
	Want  string // digest of the wanted revision
	Found Digests
}

func (e *RevisionMismatch) Error() string {
	return fmt.Sprintf("%s has the files of revision %s, and revision %s is deployed; "+
		"run models.deploy to roll to the new files, or put the old files back",
		e.Path, digest.Short(e.Found.Revision), digest.Short(e.Want))
}
