package bulk_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"troupe/cluster/bulk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen opens a plane that ends with the test.
func listen(t testing.TB, cfg bulk.Config) *bulk.Plane {
	t.Helper()
	p, err := bulk.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// within is a context that ends with the test, or after a time that no test needs.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// content is what a test sends: chunks of random bytes, of random lengths.
func content(seed uint64, chunks, longest int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 1))
	all := make([][]byte, chunks)
	for i := range all {
		all[i] = make([]byte, r.IntN(longest+1))
		for j := range all[i] {
			all[i][j] = byte(r.Uint32())
		}
	}
	return all
}

// arena is where a test puts chunks; it fails on one that comes twice.
type arena struct {
	t    testing.TB
	got  map[uint32][]byte
	busy bool
}

func (a *arena) put(index uint32, b []byte) error {
	if a.busy {
		a.t.Error("put runs twice at once")
	}
	a.busy = true
	if _, twice := a.got[index]; twice {
		a.t.Errorf("chunk %d was put twice", index)
	}
	a.got[index] = bytes.Clone(b)
	a.busy = false
	return nil
}

func (a *arena) compare(want [][]byte) {
	a.t.Helper()
	if len(a.got) != len(want) {
		a.t.Errorf("%d chunks came, not %d", len(a.got), len(want))
	}
	for i, b := range want {
		if !bytes.Equal(a.got[uint32(i)], b) {
			a.t.Errorf("chunk %d is not what was sent", i)
		}
	}
}

func from(chunks [][]byte) func(uint32, []byte) (int, error) {
	return func(i uint32, into []byte) (int, error) { return copy(into, chunks[i]), nil }
}

func all(n int) []uint32 {
	indices := make([]uint32, n)
	for i := range indices {
		indices[i] = uint32(i)
	}
	return indices
}

func TestSend(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{})
	want := content(1, 100, 100_000)
	got := &arena{t: t, got: map[uint32][]byte{}}
	ticket, err := b.Expect(100_000, 100, got.put)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]uint32{all(100)[:60], all(100)[60:]} {
		if err := a.Send(within(t), ticket, part, from(want)); err != nil {
			t.Fatal(err)
		}
	}
	b.Drop(ticket)
	got.compare(want)
	t.Log(a.Stats(), b.Stats())
}
