package transfer

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/migrate"
	"troupe/messages"
)

// Bulk is the part of the node's data plane that migrations use.
type Bulk interface {
	Expect(chunkBytes int, chunks uint32, put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	Drop(*messages.BulkTicket)
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		read func(index uint32, into []byte) (int, error)) error
}

// Blocks gives access to the KV blocks of the replica while steps run.
type Blocks interface {
	BlockBytes() int
	Read(ctx context.Context, block int32, into []byte) error
	Write(ctx context.Context, block int32, from []byte) error
}

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Bulk   Bulk
	Blocks Blocks // closed by the parent
	// Ready returns the message to the parent when an incarnation starts.
	Ready func(incarnation uint64) any
}

// Command is part of every command. It names the attempt that the command belongs to and the
// incarnation of the actor that it is for.
type Command struct {
	migrate.Key
	Incarnation uint64
}

// Commands of the parent. Done, Opened, Heard and Closed return the message that answers the
// command.
type (
	// SendBlocks sends blocks to a transfer on another node. Blocks[i] is chunk Indices[i].
	SendBlocks struct {
		Command
		Ticket  *messages.BulkTicket
		Indices []uint32
		Blocks  []int32
		Done    func(err error) any
	}
	// CancelSend cancels the send of an attempt, which then ends with an error.
	CancelSend struct{ Command }
	// OpenSink opens a transfer whose chunk i is written to Blocks[i]. The first Resident blocks
	// are not written.
	OpenSink struct {
		Command
		Blocks   []int32
		Resident int
		Opened   func(ticket *messages.BulkTicket, err error) any
	}
	// AskSink asks when the last block arrived; the zero time means that none has.
	AskSink struct {
		Command
		Heard func(at time.Time) any
	}
	// CloseSink closes a transfer, if it is open, and reports whether its first Blocks blocks have
	// arrived. No block is written afterwards.
	CloseSink struct {
		Command
		Blocks int
		Closed func(complete bool) any
	}
)

// Props returns the props of the actor.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &transfers{Config: cfg, incarnation: incarnation, sends: make(map[migrate.Key]send),
			sinks: make(map[migrate.Key]*sink)}
	})
}

type transfers struct {
	Config
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	sends       map[migrate.Key]send
	sinks       map[migrate.Key]*sink
}

// send is a send in progress.
type send struct {
	cancel context.CancelFunc
	ended  <-chan struct{} // closed once no block is read
	done   func(err error) any
}

// sendDone is a message to self.
type sendDone struct {
	incarnation uint64
	key         migrate.Key
	err         error
}

func (a *transfers) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		a.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		a.onStopping()
	case *actor.Stopped:
	case *SendBlocks:
		a.onSend(ctx, msg)
	case *CancelSend:
		a.onCancel(msg)
	case *sendDone:
		a.onSendDone(ctx, msg)
	case *OpenSink:
		a.onOpen(ctx, msg)
	case *AskSink:
		a.onAsk(ctx, msg)
	case *CloseSink:
		a.onClose(ctx, msg)
	default:
		supervise.Unknown(ctx, "transfers")
	}
}

func (a *transfers) onStarted(ctx actor.Context) {
	a.life, a.cancel = context.WithCancel(context.Background())
	ctx.Send(ctx.Parent(), a.Ready(a.incarnation))
}

// onStopping blocks until no block is being read or written, because the parent then frees the
// blocks.
func (a *transfers) onStopping() {
	a.cancel()
	for _, s := range a.sends {
		<-s.ended
	}
	for _, k := range slices.SortedFunc(maps.Keys(a.sinks), migrate.CompareKeys) {
		a.closeSink(k)
	}
}

func (a *transfers) onSend(ctx actor.Context, msg *SendBlocks) {
	if msg.Incarnation != a.incarnation {
		return
	}
	life, cancel := context.WithCancel(a.life)
	bulk, blocks, note := a.Bulk, a.Blocks, sendDone{incarnation: a.incarnation, key: msg.Key}
	at := make(map[uint32]int32, len(msg.Indices))
	for i, index := range msg.Indices {
		at[index] = msg.Blocks[i]
	}
	size := blocks.BlockBytes()
	ended := supervise.Job(ctx, life, func(life context.Context) (struct{}, error) {
		return struct{}{}, bulk.Send(life, msg.Ticket, msg.Indices, func(index uint32, into []byte) (int, error) {
			return size, blocks.Read(life, at[index], into[:size])
		})
	}, func(_ struct{}, err error) any {
		note.err = err
		return &note
	})
	a.sends[msg.Key] = send{cancel, ended, msg.Done}
}

func (a *transfers) onCancel(msg *CancelSend) {
	if s, ok := a.sends[msg.Key]; ok && msg.Incarnation == a.incarnation {
		s.cancel()
	}
}

func (a *transfers) onSendDone(ctx actor.Context, msg *sendDone) {
	if msg.incarnation != a.incarnation {
		return
	}
	s := a.sends[msg.key]
	s.cancel()
	delete(a.sends, msg.key)
	ctx.Send(ctx.Parent(), s.done(msg.err))
}

func (a *transfers) onOpen(ctx actor.Context, msg *OpenSink) {
	if msg.Incarnation != a.incarnation {
		return
	}
	life, blocks := a.life, a.Blocks
	s := &sink{now: supervise.RuntimeOf(ctx.ActorSystem()).Now, resident: msg.Resident,
		received: make([]bool, len(msg.Blocks)), write: func(index uint32, b []byte) error {
			return blocks.Write(life, msg.Blocks[index], b)
		}}
	ticket, err := a.Bulk.Expect(blocks.BlockBytes(), uint32(len(msg.Blocks)), s.put)
	if err == nil {
		s.ticket = ticket
		a.sinks[msg.Key] = s
	}
	ctx.Send(ctx.Parent(), msg.Opened(ticket, err))
}

func (a *transfers) onAsk(ctx actor.Context, msg *AskSink) {
	if s := a.sinks[msg.Key]; s != nil && msg.Incarnation == a.incarnation {
		ctx.Send(ctx.Parent(), msg.Heard(s.lastChunkAt()))
	}
}

func (a *transfers) onClose(ctx actor.Context, msg *CloseSink) {
	if msg.Incarnation != a.incarnation {
		return
	}
	s := a.closeSink(msg.Key)
	ctx.Send(ctx.Parent(), msg.Closed(s != nil && s.complete(msg.Blocks)))
}

// closeSink closes a transfer and returns it, or nil if it is not open. It waits until no write is
// in progress.
func (a *transfers) closeSink(k migrate.Key) *sink {
	s := a.sinks[k]
	if s == nil {
		return nil
	}
	delete(a.sinks, k)
	s.close()
	a.Bulk.Drop(s.ticket)
	return s
}
