package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// TestCanaries checks that the first record of a name counts, that a watch delivers records, those that
// cannot be read, and deletions, also after the server was lost, and that a record can be replaced.
func TestCanaries(t *testing.T) {
	s, restart := open(t)
	first := &messages.CanaryRecord{RevisionDigest: "a", Prompt: []uint32{1}, Tokens: []uint32{7, 8}}
	if err := s.CreateCanary(t.Context(), "canaries.a.1", first); err != nil {
		t.Fatal(err)
	}
	second := proto.Clone(first).(*messages.CanaryRecord)
	second.Tokens = []uint32{9}
	if err := s.CreateCanary(t.Context(), "canaries.a.1", second); !errors.Is(err, ErrConflict) {
		t.Errorf("over a record: %v", err)
	}
	if _, err := s.kv.Put(t.Context(), "canaries.b.1", []byte("{tor")); err != nil {
		t.Fatal(err)
	}
	seen := &recorder[string]{last: map[string]string{}}
	startWatch(t, func(ctx context.Context) error {
		return s.WatchCanaries(ctx, func(c CanaryChange) {
			text := "deleted"
			if c.Err != nil {
				text = "unreadable"
			} else if c.Record != nil {
				text = strings.ReplaceAll(c.Record.String(), " ", "")
			}
			seen.record(c.Name, text, c.Synced)
		})
	})
	have := func(name, text string) func() bool {
		return func() bool { return strings.Contains(seen.last[name], text) }
	}
	seen.until(t, "both records", func() bool {
		return seen.synced == 1 && have("canaries.a.1", "tokens:7tokens:8")() && have("canaries.b.1", "unreadable")()
	})
	restart()
	seen.until(t, "the records again", func() bool { return seen.synced == 2 })
	if err := s.ReplaceCanary(t.Context(), "canaries.b.1", second); err != nil {
		t.Fatal(err)
	}
	seen.until(t, "the new record", have("canaries.b.1", "tokens:9"))
	if err := s.kv.Delete(t.Context(), "canaries.a.1", 0); err != nil {
		t.Fatal(err)
	}
	seen.until(t, "the deletion", have("canaries.a.1", "deleted"))
}
