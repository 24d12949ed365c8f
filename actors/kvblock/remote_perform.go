package kvblock

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/remote"
	"troupe/messages"
)

// perform carries out the machine's effects, in order.
func (r *remoteTier) perform(ctx actor.Context, effects []remote.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case remote.AskRouter:
			ctx.Request(r.Router, ctx.Message())
		case remote.AnswerFind:
			r.reply(ctx, e.To, blocksFound(e, ctx.Message()))
		case remote.Keep:
			r.commands[e.ID] = ctx.Message().(*messages.FetchBlocks)
		case remote.Forget:
			delete(r.commands, e.ID)
		case remote.Lease:
			r.lease(ctx, e)
		case remote.Release:
			ctx.Send(actor.NewPID(e.Holder.Address, e.Holder.ID), &messages.ReleaseBlocks{RequestId: e.ID})
		case remote.AnswerFetch:
			r.reply(ctx, e.To, &messages.FetchBlocksResult{RequestId: e.ID, Outcome: &messages.FetchBlocksResult_Sent{
				Sent: &messages.BlocksSent{Blocks: uint32(e.Blocks)},
			}})
		case remote.Relay:
			r.reply(ctx, e.To, fetchRefused(e.ID, ctx.Message().(*leaseDone).result.GetRefused()))
		case remote.Refuse:
			r.refuse(ctx, e)
		case remote.SweepAfter:
			supervise.After(ctx, e.After, &sweep{r.incarnation})
		case remote.Ignored:
			r.Log.Debug().Str("tier", RemoteName).Stringer("object", e.Object).Str("id", e.ID).
				Stringer("state", e.State).Stringer("trigger", e.Trigger).Msg("event ignored by tier")
		default:
			panic(fmt.Sprintf("kvblock: unknown effect %T", effect))
		}
	}
}

// reply sends an answer, unless the requester is unknown.
func (r *remoteTier) reply(ctx actor.Context, to remote.Actor, answer proto.Message) {
	if to != (remote.Actor{}) {
		ctx.Send(actor.NewPID(to.Address, to.ID), answer)
	}
}

// blocksFound returns the answer to a lookup. found is the router's answer, or the lookup itself if
// it was not passed on to the router.
func blocksFound(e remote.AnswerFind, found any) *messages.FindBlocksResult {
	result := &messages.FindBlocksResult{RequestId: e.ID}
	msg, ok := found.(*messages.FindBlocksResult)
	if !ok {
		return result
	}
	for i, run := range msg.GetHeld() {
		path := e.Paths[i]
		result.Held = append(result.Held, &messages.BlocksHeld{
			First: run.GetFirst(), Blocks: run.GetBlocks(), Holder: run.GetHolder(), Name: run.GetName(),
			Node: run.GetNode(),
			Path: &messages.HolderPath{
				Latency: durationpb.New(path.Latency), BytesPerSecond: path.Rate.PerSecond(),
				QueuedBytes: uint64(path.Queued), TryBlocks: uint32(path.ProbeBlocks),
			},
		})
	}
	return result
}

// lease starts a job that asks the holder for the blocks of a fetch.
func (r *remoteTier) lease(ctx actor.Context, e remote.Lease) {
	command := r.commands[e.ID]
	l := leaseRequest{root: ctx.ActorSystem().Root, runtime: supervise.RuntimeOf(ctx.ActorSystem()),
		holder: holderOf(command), timeout: e.Within,
		lease: &messages.LeaseBlocks{
			RequestId: e.ID, Hashes: command.GetHashes(), Space: command.GetSpace(),
			BlockBytes: command.GetBlockBytes(), PartBytes: command.GetPartBytes(),
			Ticket: command.GetTicket(), Lease: durationpb.New(e.Within),
		}}
	incarnation := r.incarnation
	supervise.Job(ctx, r.lifetime, l.run, func(result *messages.LeaseBlocksResult, err error) any {
		return &leaseDone{incarnation, e.ID, result, err}
	})
}

func (r *remoteTier) refuse(ctx actor.Context, e remote.Refuse) {
	why := &messages.Refused{Reason: fetchReasons[e.Reason], Detail: e.Detail}
	if e.RetryAfter > 0 {
		why.RetryAfter = durationpb.New(e.RetryAfter)
	}
	r.reply(ctx, e.To, fetchRefused(e.ID, why))
}

func fetchRefused(id string, why *messages.Refused) *messages.FetchBlocksResult {
	return &messages.FetchBlocksResult{
		RequestId: id, Outcome: &messages.FetchBlocksResult_Refused{Refused: why},
	}
}

var fetchReasons = map[remote.Reason]messages.Reason{
	remote.Invalid:        messages.Reason_REASON_INVALID_ARGUMENT,
	remote.QueueFull:      messages.Reason_REASON_QUEUE_FULL,
	remote.DeadlinePassed: messages.Reason_REASON_DEADLINE,
	remote.Internal:       messages.Reason_REASON_INTERNAL,
	remote.NotReady:       messages.Reason_REASON_NOT_READY,
}
