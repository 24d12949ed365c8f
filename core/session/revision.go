package session

import "hash/fnv"

// Fingerprint returns a hash of the digest of a model's files. Tokens carry it instead of the digest. It is 0
// for files without a digest.
func Fingerprint(digest string) uint64 {
	if digest == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(digest))
	return h.Sum64()
}

// setRevision sets the digest of the files that computed the output.
func (m *Machine) setRevision(digest string) { m.revision, m.fingerprint = digest, Fingerprint(digest) }

// unknownFiles reports whether tokens are the first ones, and the digest of the files that computed them is not
// known, since the acceptance of the sequence was lost. The replica repeats them on Submit.
func (m *Machine) unknownFiles(e event) bool {
	return m.seen == 0 && m.fingerprint == 0 && e.tokens.Revision != 0
}

// otherFiles reports whether other files than those of the output computed the tokens. Without a digest,
// files are not compared.
func (m *Machine) otherFiles(e event) bool {
	return m.fingerprint != 0 && e.tokens.Revision != 0 && e.tokens.Revision != m.fingerprint
}

// leaveFiles requests a replica with the files of the output. The assigned one has others: it was given the
// sequence while there was no output, and another replica sent the first tokens.
func (m *Machine) leaveFiles(e event) {
	m.cause = m.replica.Name + " does not have the files that computed the output"
	m.route(e)
}

func (m *Machine) cancelSender(e event) {
	if e.from == m.other {
		m.other = Actor{}
	}
	m.emit(Cancel{e.from, OtherFiles})
}
