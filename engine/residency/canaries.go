package residency

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"troupe/core/loadsource"
	"troupe/core/verify"
	"troupe/engine"
)

// Canaries holds the records of canaries that a node knows, and the sources that it suspects, for all its
// devices. It survives every actor. It is safe for concurrent use.
type Canaries struct {
	cfg CanaryConfig

	mu       sync.Mutex
	records  *verify.Records
	suspects loadsource.Suspects
	counts   CanaryCounts
	effects  []verify.Effect // of the records, for the store
	changed  func()          // called when there are effects; nil: not called
}

// CanaryConfig configures Canaries.
type CanaryConfig struct {
	Node        string
	Version     string // of the program
	Now         func() time.Time
	WithTimeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Publish publishes an event. It must not block.
	Publish func(kind, subject, detail string)
}

// CanaryCounts counts canaries of loads.
type CanaryCounts struct {
	Recorded, Passed, Rejected uint64
	Took                       time.Duration
}

// NewCanaries returns an object without records.
func NewCanaries(cfg CanaryConfig) *Canaries {
	return &Canaries{cfg: cfg, records: verify.NewRecords()}
}

// OnEffects sets the function that is called when TakeEffects returns something. It must not block.
func (c *Canaries) OnEffects(changed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = changed
}

// TakeEffects returns what the store has to learn, in order.
func (c *Canaries) TakeEffects() []verify.Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	effects := c.effects
	c.effects = nil
	return effects
}

// Follow applies what the store has to the records.
func (c *Canaries) Follow(apply func(*verify.Records) []verify.Effect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(apply(c.records))
}

// Find returns the record of a key.
func (c *Canaries) Find(key verify.Key) (verify.Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records.Find(key.Name())
}

// Counts returns how many canaries of loads have run, and how they ended.
func (c *Canaries) Counts() CanaryCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// add adds effects for the store. The lock is held.
func (c *Canaries) add(effects []verify.Effect) {
	for _, e := range effects {
		if _, ignored := e.(verify.Ignored); !ignored {
			c.effects = append(c.effects, e)
		}
	}
	if len(c.effects) > 0 && c.changed != nil {
		c.changed()
	}
}

// judge reports the tokens of a canary to the load, and records them if they are the first. It returns
// the effects that are left.
func (c *Canaries) judge(l *verify.Load, key verify.Key, got verify.Record, more bool, took time.Duration) (
	left []verify.Effect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var recorded *verify.Record
	if found, ok := c.records.Find(key.Name()); ok && found.Valid() {
		recorded = &found
	}
	c.counts.Took += took
	for _, effect := range l.Computed(got.Tokens, recorded, more) {
		switch effect.(type) {
		case verify.Recorded:
			c.add(c.records.Recorded(key.Name(), got))
			c.counts.Recorded++
		default:
			left = append(left, effect)
		}
	}
	switch {
	case l.State() != verify.Accepted:
		c.counts.Rejected++
	case recorded != nil:
		c.counts.Passed++
	}
	return left
}

// promptFor returns the prompt of the record of a key, or that of a new one.
func (c *Canaries) promptFor(key verify.Key, info engine.ModelInfo) []uint32 {
	if found, ok := c.Find(key); ok && found.Valid() {
		return found.Prompt
	}
	return verify.Prompt(info.Vocab, info.ContextTokens, info.EOS)
}

func (c *Canaries) suspect(revision, source, version, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspects.Suspect(revision, source, version, why)
}

// suspected returns why a source must not be chosen for the content of its image; empty if it may be.
func (c *Canaries) suspected(s ImageSource) string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	why, _ := c.suspects.Why(s.Image().Digests.Revision, s.Name(), versionOf(s))
	return why
}

// versionOf identifies what a source has.
func versionOf(s ImageSource) string {
	if v, ok := s.(versioner); ok {
		return v.Version()
	}
	return partsVersion(s.Image())
}

// partsVersion identifies the parts of an image.
func partsVersion(i *engine.Image) string {
	h := fnv.New64a()
	for _, s := range i.Sums {
		fmt.Fprintf(h, "%d %x,", s.Bytes, s.Sum)
	}
	return fmt.Sprintf("%x", h.Sum64())
}
