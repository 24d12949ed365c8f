package wire

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/replica"
	"troupe/messages"
)

// Sequences are the sequences of a replica, by request id.
type Sequences map[string]*Sequence

// Sequence is a sequence and the session that it belongs to.
type Sequence struct {
	Session  *actor.PID
	Spec     *messages.SequenceSpec
	Logprobs []*messages.TokenLogprobs // of the output from index Base on, if requested
	Base     int                       // number of output tokens that the session submitted
}

// Adapter converts the adapter of a sequence.
func Adapter(seq *messages.SequenceSpec) replica.Adapter {
	a := AdapterOf(seq.GetAdapterSpec())
	a.Requested = seq.GetAdapter()
	return a
}

// AdapterOf converts an adapter, or the zero value for nil.
func AdapterOf(spec *messages.AdapterSpec) replica.Adapter {
	return replica.Adapter{Name: spec.GetName(), Key: spec.Key(), Base: spec.GetBaseDigest(),
		HasPath: spec.GetPath() != "", Given: spec != nil}
}

// Base is the model of a replica.
type Base struct {
	Model string
	EOS   []uint32 // tokens that end a sequence
}

// Request converts a sequence and its output so far to a request of the scheduler.
func (b Base) Request(id string, seq *messages.SequenceSpec, output []uint32, now time.Time) batch.Request {
	r := batch.Request{
		ID: id, Class: batch.Class(seq.GetPriority()), Arrived: now,
		Adapter: seq.GetAdapterSpec().Key(),
		Root:    kv.Root(b.Model, seq.GetAdapterSpec().Key(), seq.GetCacheSalt()),
		Prompt:  seq.GetPrompt(), Output: output,
		MaxOutput: int(seq.GetSampling().GetMaxTokens()), MinOutput: int(seq.GetSampling().GetMinTokens()),
		Stops:  b.stops(seq),
		Client: seq.GetClient(), Weight: seq.GetWeight(),
	}
	if d := seq.GetDeadline(); d != nil {
		r.Deadline = d.AsTime()
	}
	return r
}

// stops returns the tokens that end a sequence.
func (b Base) stops(seq *messages.SequenceSpec) []uint32 {
	stops := append([]uint32(nil), seq.GetSampling().GetStopTokenIds()...)
	if !seq.GetSampling().GetIgnoreEos() {
		stops = append(stops, b.EOS...)
	}
	return stops
}

// Hashes converts hashes from bytes.
func Hashes(raw [][]byte) []kv.Hash {
	hashes := make([]kv.Hash, len(raw))
	for i, b := range raw {
		copy(hashes[i][:], b)
	}
	return hashes
}

// Bytes converts hashes to bytes.
func Bytes(hashes []kv.Hash) [][]byte {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	return raw
}
