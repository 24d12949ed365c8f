package members

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestUnansweredBucketIsNotLost checks that a bucket that exists is not reported as deleted when it
// does not respond, as without a majority of its servers.
func TestUnansweredBucketIsNotLost(t *testing.T) {
	s := startServer(t)
	var events []string
	n := s.open("a", func(c *Config) { c.OnEvent = func(kind, _ string) { events = append(events, kind) } })
	n.recreateBucket(jetstream.ErrNoStreamResponse) // no renewal has succeeded yet
	if len(events) != 0 || n.BucketLost() {
		t.Errorf("events %q, lost %v", events, n.BucketLost())
	}
}
