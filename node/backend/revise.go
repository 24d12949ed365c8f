package backend

import (
	"troupe/engine"
	"troupe/messages"
)

// Revise sets the deploy count and the digests of spec, which models.deploy or the configuration is
// about to store in place of stored. stored is nil if the deployment is new. known has the digests
// of the files in the folder, if they are already known. Revise itself reads no files.
//
// If known equals the stored revision, nothing changes. If known is empty, the first replica that
// loads the files records their digests, and replicas of the previous files serve until then. If
// there is another deploy before that, it waits for the same record.
func Revise(spec, stored *messages.DeploymentSpec, known engine.Digests) {
	spec.Deploy, spec.AskedRevision = stored.GetDeploy(), 0
	if spec.GetPath() != stored.GetPath() || known.Revision != stored.GetRevisionDigest() {
		spec.Deploy++
	}
	spec.WeightsDigest, spec.RevisionDigest = known.Weights, known.Revision
}
