package link

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// TestPack: every envelope keeps its type, target, sender and position, whatever it shares with the
// one before it.
func TestPack(t *testing.T) {
	const n = 100
	var letters []envelope
	for i := range n {
		l := envelope{
			kind:   fmt.Sprint("type-", i/2),
			target: &actor.PID{Address: "here", Id: fmt.Sprint("to-", i/3), RequestId: uint32(i)},
			data:   make([]byte, batchBytes/10),
		}
		if i%4 != 0 { // the others have no sender
			l.sender = &actor.PID{Address: fmt.Sprint("a-", i/5), Id: fmt.Sprint("from-", i/10), RequestId: uint32(i)}
		}
		if i%7 == 0 {
			l.header = map[string]string{"n": fmt.Sprint(i)}
		}
		letters = append(letters, l)
	}
	i, batches := 0, 0
	for rest := letters; len(rest) > 0; batches++ {
		b, took := pack(rest)
		rest = rest[took:]
		for _, e := range b.Envelopes {
			got, err := unpack(b, e, "here")
			if err != nil {
				t.Fatal(err)
			}
			want := letters[i]
			if got.kind != want.kind || !got.target.Equal(want.target) || (got.sender == nil) != (want.sender == nil) ||
				got.sender != nil && !got.sender.Equal(want.sender) ||
				got.header["n"] != want.header["n"] {
				t.Errorf("envelope %d became %v", i, got)
			}
			i++
		}
	}
	if i != n || batches != n/10 {
		t.Errorf("%d envelopes in %d batches, want %d in %d", i, batches, n, n/10)
	}
}

// TestOutboxLosesNothing: envelopes put before close are taken in order; none can be put
// afterwards.
func TestOutboxLosesNothing(t *testing.T) {
	for range 100 {
		o := outbox{wake: make(chan struct{}, 1)}
		var put, taken []string
		var writers sync.WaitGroup
		writers.Go(func() {
			for i := 0; o.put(envelope{kind: fmt.Sprint(i)}); i++ {
				put = append(put, fmt.Sprint(i))
			}
		})
		for all := o.take(nil); len(all) > 0; all = o.take(all) {
			for _, l := range all {
				taken = append(taken, l.kind)
			}
			if len(taken) > 10 {
				o.close()
			}
		}
		writers.Wait()
		if !slices.Equal(put, taken) {
			t.Fatalf("%d were put, %d taken", len(put), len(taken))
		}
	}
}
