package link

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
)

// TestOutboxMerges: every message keeps its type, target and sender, and the order.
func TestOutboxMerges(t *testing.T) {
	o := outbox{wake: make(chan struct{}, 1)}
	const n = 100
	for i := range n {
		b := &remote.MessageBatch{TypeNames: []string{fmt.Sprint("type-", i)}, Targets: []string{fmt.Sprint("to-", i)}, Envelopes: []*remote.MessageEnvelope{{MessageData: make([]byte, mergeBytes/10)}}}
		if i%3 != 0 { // the others have no sender
			b.Senders = []*actor.PID{{Address: "a", Id: fmt.Sprint("from-", i)}}
			b.Envelopes[0].Sender = 1
		}
		o.put(b)
	}
	i, batches := 0, 0
	for b := o.take(); b != nil; b = o.take() {
		batches++
		for _, e := range b.Envelopes {
			l, err := open(b, e, "here")
			if err != nil {
				t.Fatal(err)
			}
			if l.kind != fmt.Sprint("type-", i) || l.target.Id != fmt.Sprint("to-", i) || (l.sender == nil) != (i%3 == 0) || l.sender != nil && l.sender.Id != fmt.Sprint("from-", i) {
				t.Errorf("message %d became %s for %s from %v", i, l.kind, l.target.Id, l.sender)
			}
			i++
		}
	}
	if i != n || batches != n/10 {
		t.Errorf("%d messages came in %d batches, not %d in %d", i, batches, n, n/10)
	}
}
