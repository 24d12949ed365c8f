package replica

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
)

const (
	announceEvery = 300 * time.Millisecond
	announceMost  = 512 // committed blocks in one message; the others come with the next ones
)

// announcer keeps what the router has not been told of the blocks yet. A block is known by the first 8 bytes of its hash.
type announcer struct {
	held map[int32]uint64 // block -> what it holds
	news []uint64         // committed, the newest last
	gone []uint64         // evicted
}

func key(h kv.Hash) uint64 { return binary.BigEndian.Uint64(h[:]) }

func (a *announcer) changed(evicted []int32, committed []kv.Committed) {
	for _, b := range evicted {
		h := a.held[b]
		delete(a.held, b)
		if i := slices.Index(a.news, h); i >= 0 {
			a.news = slices.Delete(a.news, i, i+1)
		} else {
			a.gone = append(a.gone, h)
		}
	}
	for _, c := range committed {
		a.hold(c.Block, c.Hash)
	}
}

func (a *announcer) hold(block int32, h kv.Hash) {
	a.held[block] = key(h)
	a.news = append(a.news, key(h))
}

// take fills in what changed, or everything.
func (a *announcer) take(msg *messages.ReplicaAnnounced, everything bool) {
	if everything {
		a.news, a.gone, msg.Snapshot = a.news[:0], nil, true
		for _, h := range a.held {
			a.news = append(a.news, h)
		}
	}
	from := max(0, len(a.news)-announceMost)
	msg.Committed, msg.Evicted = slices.Clone(a.news[from:]), a.gone
	slices.Reverse(msg.GetCommitted())
	a.news, a.gone = a.news[:from], nil
}

// beat is a note to self.
type beat struct{ incarnation uint64 }

func (r *replica) onBeat(ctx actor.Context, msg *beat) {
	if msg.incarnation != r.incarnation {
		return
	}
	if time.Since(r.announced) >= announceEvery {
		r.announceTo(ctx, false)
	}
	supervise.After(ctx, announceEvery, msg)
}

// announceTo tells the router how the replica is.
func (r *replica) announceTo(ctx actor.Context, everything bool) {
	if r.Router == nil {
		return
	}
	msg := &messages.ReplicaAnnounced{Status: r.status(ctx)}
	r.news.take(msg, everything)
	r.announced = time.Now()
	ctx.Request(r.Router, msg)
}

// onGetReplica answers anyone, and the router with everything.
func (r *replica) onGetReplica(ctx actor.Context) {
	ctx.Respond(r.status(ctx))
	if r.Router != nil && r.Router.Equal(ctx.Sender()) {
		r.announceTo(ctx, true)
	}
}
