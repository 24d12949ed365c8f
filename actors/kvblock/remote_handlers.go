package kvblock

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/core/remote"
	"troupe/messages"
)

func (r *remoteTier) onStarted(ctx actor.Context) {
	r.lifetime, r.cancel = context.WithCancel(context.Background())
	r.machine, r.commands = remote.New(r.Capacity), make(map[string]*messages.FetchBlocks)
	r.Log.Info().Str("tier", RemoteName).Int64("capacity", r.Capacity).Uint64("incarnation", r.incarnation).
		Msg("tier started")
	r.perform(ctx, r.machine.Start())
}

func (r *remoteTier) onEnd(ctx actor.Context) {
	r.cancel()
	r.perform(ctx, r.machine.Stop())
}

func (r *remoteTier) onFind(ctx actor.Context, msg *messages.FindBlocks) {
	r.perform(ctx, r.machine.Find(msg.GetRequestId(), remoteActorOf(ctx.Sender()), msg.GetInTiers(),
		supervise.Now(ctx)))
}

func (r *remoteTier) onFound(ctx actor.Context, msg *messages.FindBlocksResult) {
	runs := make([]remote.Run, len(msg.GetHeld()))
	for i, run := range msg.GetHeld() {
		runs[i] = remote.Run{First: int(run.GetFirst()), Blocks: int(run.GetBlocks()), Name: run.GetName()}
	}
	r.perform(ctx, r.machine.Found(msg.GetRequestId(), runs, supervise.Now(ctx)))
}

func (r *remoteTier) onFetch(ctx actor.Context, msg *messages.FetchBlocks) {
	r.perform(ctx, r.machine.Fetch(fetchOf(ctx.Sender(), msg), supervise.Now(ctx)))
}

func (r *remoteTier) onRelease(ctx actor.Context, msg *messages.ReleaseBlocks) {
	r.perform(ctx, r.machine.Release(msg.GetRequestId(), supervise.Now(ctx)))
}

func (r *remoteTier) onLeaseDone(ctx actor.Context, msg *leaseDone) {
	if msg.incarnation != r.incarnation {
		return
	}
	now := supervise.Now(ctx)
	switch {
	case msg.err != nil:
		r.perform(ctx, r.machine.Failed(msg.id, msg.err.Error(), now))
	case msg.result.GetRefused() != nil:
		r.perform(ctx, r.machine.Refused(msg.id, now))
	default:
		r.perform(ctx, r.machine.Sent(msg.id, int(msg.result.GetSent().GetBlocks()), now))
	}
}

func (r *remoteTier) onFetched(ctx actor.Context, msg *messages.BlocksFetched) {
	r.machine.Fetched(msg.GetFrom().GetName(), msg.GetFrom().GetNode(), int(msg.GetWanted()), kv.FetchSample{
		Blocks: int(min(msg.GetReceived(), msg.GetWanted())), BlockBytes: int(msg.GetBlockBytes()),
		Bytes: int64(msg.GetBytes()), FirstBytes: int64(msg.GetFirstBytes()),
		First: msg.GetFirst().AsDuration(), All: msg.GetTook().AsDuration(),
	}, supervise.Now(ctx))
}

func (r *remoteTier) onSweep(ctx actor.Context, msg *sweep) {
	if msg.incarnation == r.incarnation {
		r.perform(ctx, r.machine.Sweep(supervise.Now(ctx)))
	}
}

// fetchOf converts a FetchBlocks and its sender.
func fetchOf(from *actor.PID, msg *messages.FetchBlocks) remote.Request {
	r := remote.Request{
		ID: msg.GetRequestId(), From: remoteActorOf(from), Holder: remoteActorOf(holderOf(msg)),
		Name:   msg.GetFrom().GetName(),
		Bytes:  int64(len(msg.GetHashes())) * int64(msg.GetBlockBytes()),
		Within: msg.GetWithin().AsDuration(),
	}
	for _, raw := range append([][]byte{msg.GetSpace()}, msg.GetHashes()...) {
		if len(raw) != len(kv.Hash{}) {
			r.Malformed = fmt.Sprintf("invalid hash length %d; want %d bytes", len(raw), len(kv.Hash{}))
			return r
		}
	}
	for _, raw := range msg.GetHashes() {
		r.Blocks = append(r.Blocks, kv.Hash(raw).Namespaced(kv.Hash(msg.GetSpace())).Fingerprint64())
	}
	return r
}

func holderOf(msg *messages.FetchBlocks) *actor.PID {
	return actor.NewPID(msg.GetFrom().GetHolder().GetAddress(), msg.GetFrom().GetHolder().GetId())
}

// remoteActorOf returns the address of an actor, or the zero value for nil.
func remoteActorOf(pid *actor.PID) remote.Actor {
	return remote.Actor{Address: pid.GetAddress(), ID: pid.GetId()}
}
