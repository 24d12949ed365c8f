package dst

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// submission is what a replica was asked to compute. Its blocks may be found by later submissions with the same
// model, adapter and salt only.
type submission struct {
	id     string
	prompt []uint32
}

// shared is the part of a submission that others must have in common with it to use its blocks.
type shared struct{ model, adapter, salt string }

func sharedBy(s *messages.SequenceSpec) shared {
	return shared{s.GetModel(), s.GetAdapterSpec().Key(), string(s.GetCacheSalt())}
}

// cachedChecks knows whose blocks a request may use.
type cachedChecks struct {
	specs map[string]*messages.SequenceSpec // by request id
	by    map[shared][]submission
}

func newCachedChecks() cachedChecks {
	return cachedChecks{specs: make(map[string]*messages.SequenceSpec), by: make(map[shared][]submission)}
}

// checkShared records submissions, and checks what they find. The caller must hold c.mu.
func (c *checks) checkShared(m proto.Message) {
	switch m := m.(type) {
	case *messages.SubmitSequence:
		c.submitted(m)
	case *messages.ResumeSequence: // a sequence that moves without output may find its own blocks
		if spec := c.cached.specs[m.GetRequestId()]; spec != nil && len(m.GetOutput()) == 0 {
			c.cached.add(m.GetRequestId(), spec)
		}
	case *messages.TokensEmitted:
		c.checkCached(m)
	}
}

// submitted records what a replica computes. The caller must hold c.mu.
func (c *checks) submitted(m *messages.SubmitSequence) {
	spec := m.GetSequence()
	if earlier := c.cached.specs[m.GetRequestId()]; earlier != nil && sharedBy(earlier) != sharedBy(spec) {
		c.failLocked("%s was submitted with another model, adapter or salt than before", m.GetRequestId())
	}
	c.cached.specs[m.GetRequestId()] = spec
	c.cached.add(m.GetRequestId(), spec)
}

func (c *cachedChecks) add(id string, spec *messages.SequenceSpec) {
	c.by[sharedBy(spec)] = append(c.by[sharedBy(spec)], submission{id, spec.GetPrompt()})
}

// checkCached checks that a request has found blocks only of submissions with the same model, adapter and salt,
// so not of another tenant: others had as many of its first tokens in common with it, or it had been submitted
// itself before it had output. The caller must hold c.mu.
func (c *checks) checkCached(m *messages.TokensEmitted) {
	spec, cached := c.cached.specs[m.GetRequestId()], int(m.GetCachedTokens())
	if cached == 0 || spec == nil {
		return
	}
	if cached > len(spec.GetPrompt()) {
		c.failLocked("%s found %d tokens of a prompt of %d", m.GetRequestId(), cached, len(spec.GetPrompt()))
		return
	}
	found := spec.GetPrompt()[:cached]
	own := 0
	for _, s := range c.cached.by[sharedBy(spec)] {
		if len(s.prompt) < cached || !slices.Equal(s.prompt[:cached], found) {
			continue
		}
		if s.id != m.GetRequestId() {
			return
		}
		if own++; own > 1 {
			return
		}
	}
	of := sharedBy(spec)
	c.failLocked("%s of %s found %d tokens in blocks that no request with its adapter %q and its salt %x has computed",
		m.GetRequestId(), of.model, cached, of.adapter, of.salt)
}
