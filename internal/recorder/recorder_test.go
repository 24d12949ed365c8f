package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"troupe/recording"
)

var began = time.Unix(1000, 0)

// nodeAt returns the recorder of a node whose clock stands at now.
func nodeAt(now *time.Time) *Recorder {
	return New("n1", func() time.Time { return *now }, func() []byte { return []byte("secret") })
}

func lines(t *testing.T, r *Recorder, id string, after uint64) (Batch, []recording.Request) {
	t.Helper()
	b, err := r.Read(id, after)
	if err != nil {
		t.Fatal(err)
	}
	var all []recording.Request
	for _, text := range b.Lines {
		var l recording.Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		all = append(all, *l.Request)
	}
	return b, all
}

// TestHashes checks that equal blocks have equal hashes within a recording only, and that names of clients are not
// recorded.
func TestHashes(t *testing.T) {
	now := began
	r := nodeAt(&now)
	for _, id := range []string{"a", "b"} {
		if err := r.Begin(id, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	r.Request(now, recording.Request{ID: "1"}, "anna", []uint64{7, 8})
	r.Request(now, recording.Request{ID: "2"}, "anna", []uint64{7, 9})
	_, a := lines(t, r, "a", 0)
	_, b := lines(t, r, "b", 0)
	if len(a) != 2 || a[0].Blocks[0] != a[1].Blocks[0] || a[0].Blocks[1] == a[1].Blocks[1] || a[0].Blocks[0] == 7 {
		t.Errorf("%+v", a)
	}
	if a[0].Blocks[0] == b[0].Blocks[0] || a[0].Client == b[0].Client {
		t.Error("two recordings have the same hashes")
	}
	if a[0].Client != a[1].Client || strings.Contains(a[0].Client, "anna") || a[0].At != 1 || a[0].Node != "n1" {
		t.Errorf("%+v", a[0])
	}
}

// TestRead checks that lines are read once, and again until the reader has said that they arrived.
func TestRead(t *testing.T) {
	now := began
	r := nodeAt(&now)
	if _, err := r.Read("a", 0); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if r.Active() || (*Recorder)(nil).Active() {
		t.Error("active without a recording")
	}
	_ = r.Begin("a", 0)
	for i := range 3 {
		r.Request(now, recording.Request{ID: fmt.Sprint(i)}, "", nil)
	}
	r.Request(now.Add(-time.Second), recording.Request{ID: "before"}, "", nil)
	for _, c := range []struct{ after, last, n uint64 }{{0, 3, 3}, {0, 3, 3}, {2, 3, 1}, {3, 3, 0}, {3, 3, 0}} {
		if b, all := lines(t, r, "a", c.after); b.Last != c.last || uint64(len(all)) != c.n || b.Lost != 0 || b.More {
			t.Errorf("after %d: %+v", c.after, b)
		}
	}
	if r.End("a"); r.Active() {
		t.Error("active after the end")
	}
}

// TestBounds checks that lines beyond the buffer are counted, that a batch is bounded, and that a recording that is
// not read ends.
func TestBounds(t *testing.T) {
	now := began
	r := nodeAt(&now)
	_ = r.Begin("a", 0)
	big := recording.Request{ID: strings.Repeat("x", 1<<20)}
	for range MaxBytes>>20 + 2 {
		r.Request(now, big, "", nil)
	}
	b, _ := lines(t, r, "a", 0)
	if b.Lost != 3 || len(b.Lines) != 1 || !b.More || b.Last != 1 {
		t.Errorf("%d lost, %d lines, more %v, last %d", b.Lost, len(b.Lines), b.More, b.Last)
	}
	_, _ = r.Read("a", 7)
	if r.Request(now, big, "", nil); r.recordings[0].lost != 3 {
		t.Error("a line is lost although there is room again")
	}
	for i := range MaxRecordings - 1 {
		if err := r.Begin(fmt.Sprint(i), 0); err != nil {
			t.Error(err)
		}
	}
	if err := r.Begin("more", 0); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	now = now.Add(Idle + 1)
	if r.Request(now, recording.Request{}, "", nil); r.Active() {
		t.Error("a recording that is not read goes on")
	}
	if err := New("n", func() time.Time { return now }, func() []byte { return nil }).Begin("a", 0); !errors.Is(err,
		ErrNoSecret) {
		t.Error(err)
	}
}

// BenchmarkOff measures the cost of the recorder without a recording.
func BenchmarkOff(b *testing.B) {
	now := began
	r := nodeAt(&now)
	b.ReportAllocs()
	for b.Loop() {
		if r.Active() {
			r.Request(now, recording.Request{}, "", nil)
		}
	}
}

// BenchmarkRequest measures the recording of a request with a prompt of 2,048 tokens.
func BenchmarkRequest(b *testing.B) {
	now := began
	r := nodeAt(&now)
	_ = r.Begin("a", 0)
	blocks, last := make([]uint64, 128), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		r.Request(now, recording.Request{ID: "cmpl-738738f8f00113b55adf72f4", Model: "kjv"}, "anna", blocks)
		if last++; last%64 == 0 {
			_, _ = r.Read("a", last)
		}
	}
}
