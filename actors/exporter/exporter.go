package exporter

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	core "troupe/core/export"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// Config configures an Exporter.
type Config struct {
	Plane  DataPlane
	Source Source
	Life   context.Context // ends with the incarnation of the holder
	// Ended returns the message that the holder sends to itself at the end of a transfer. damaged has the hash of
	// the block that was found damaged, if any. fault is the error, or "" if all blocks were sent.
	Ended func(id string, damaged []kv.Hash, fault string) any
	Log   zerolog.Logger
}

// Exporter sends the blocks of a holder. It is not safe for concurrent use.
type Exporter struct {
	Config
	cancels map[string]context.CancelFunc // by request id
}

// New returns an Exporter without transfers.
func New(cfg Config) *Exporter {
	return &Exporter{Config: cfg, cancels: make(map[string]context.CancelFunc)}
}

// Perform carries out an effect of the holder's machine. A Send must belong to the message being
// handled, a LeaseBlocks.
func (x *Exporter) Perform(ctx actor.Context, effect core.Effect) {
	switch e := effect.(type) {
	case core.Send:
		x.send(ctx, e, ctx.Message().(*messages.LeaseBlocks))
	case core.Cancel:
		x.cancels[e.ID]()
	case core.Answer:
		x.end(e.ID)
		reply(ctx, e.To, &messages.LeaseBlocksResult{RequestId: e.ID,
			Outcome: &messages.LeaseBlocksResult_Sent{Sent: &messages.BlocksSent{Blocks: uint32(e.Blocks)}}})
	case core.Refuse:
		x.end(e.ID)
		refuse(ctx, e)
	case core.Ignored:
		x.Log.Debug().Str("request", e.ID).Stringer("state", e.State).Stringer("event", e.Event).
			Msg("event ignored by exports")
	default:
		panic(fmt.Sprintf("exporter: unknown effect %T", effect))
	}
}

func (x *Exporter) send(ctx actor.Context, e core.Send, msg *messages.LeaseBlocks) {
	t := newTransfer(x.Plane, x.Source, msg, e.Blocks)
	life, cancel := supervise.WithTimeout(ctx, x.Life, e.Within)
	x.cancels[e.ID] = cancel
	note := x.Ended
	supervise.Job(ctx, life, t.run, func(damaged []kv.Hash, err error) any {
		if err != nil {
			return note(e.ID, damaged, err.Error())
		}
		return note(e.ID, damaged, "")
	})
}

// end releases the context of a transfer that has ended.
func (x *Exporter) end(id string) {
	if cancel, ok := x.cancels[id]; ok {
		cancel()
		delete(x.cancels, id)
	}
}

func refuse(ctx actor.Context, e core.Refuse) {
	refused := &messages.Refused{Reason: reasons[e.Reason], Detail: e.Detail}
	if e.RetryAfter > 0 {
		refused.RetryAfter = durationpb.New(e.RetryAfter)
	}
	reply(ctx, e.To, &messages.LeaseBlocksResult{RequestId: e.ID,
		Outcome: &messages.LeaseBlocksResult_Refused{Refused: refused}})
}

func reply(ctx actor.Context, to core.Actor, result *messages.LeaseBlocksResult) {
	if to != (core.Actor{}) {
		ctx.Send(actor.NewPID(to.Address, to.ID), result)
	}
}

var reasons = map[core.Reason]messages.Reason{
	core.NotReady:    messages.Reason_REASON_NOT_READY,
	core.Unsupported: messages.Reason_REASON_UNSUPPORTED,
	core.Conflict:    messages.Reason_REASON_CONFLICT,
	core.Invalid:     messages.Reason_REASON_INVALID_ARGUMENT,
	core.QueueFull:   messages.Reason_REASON_QUEUE_FULL,
	core.Internal:    messages.Reason_REASON_INTERNAL,
}

// RequestOf converts a LeaseBlocks and its sender; a nil sender is unknown.
func RequestOf(from *actor.PID, msg *messages.LeaseBlocks) core.Request {
	r := core.Request{
		ID: msg.GetRequestId(), From: core.Actor{Address: from.GetAddress(), ID: from.GetId()},
		BlockBytes: msg.GetBlockBytes(), Within: msg.GetLease().AsDuration(),
	}
	if raw := msg.GetSpace(); len(raw) == len(r.Space) {
		r.Space = kv.Hash(raw)
	}
	for _, raw := range msg.GetHashes() {
		if len(raw) != len(kv.Hash{}) {
			r.Malformed = fmt.Sprintf("invalid hash length %d; want %d bytes", len(raw), len(kv.Hash{}))
			return r
		}
		r.Hashes = append(r.Hashes, kv.Hash(raw))
	}
	if _, err := chunksOf(msg); err != nil {
		r.Malformed = err.Error()
	}
	return r
}

func chunksOf(msg *messages.LeaseBlocks) (kvstore.Chunks, error) {
	return kvstore.NewChunks(len(msg.GetHashes()), msg.GetBlockBytes(), msg.GetPartBytes())
}
