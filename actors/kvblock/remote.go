package kvblock

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
)

// RemoteName is the name of the remote tier, next to "hbm", "dram" and "nvme".
const RemoteName = "remote"

// DefaultRemoteBytes is the default limit of bytes in flight from other nodes.
const DefaultRemoteBytes = 256 << 20

const (
	maxLookups    = 256 // unanswered FindBlocks
	maxWaiting    = 64  // waiting fetches
	sweepInterval = time.Second
)

// RemoteConfig configures the remote tier. It is fixed for the life of the actor and shared by its
// restarts.
type RemoteConfig struct {
	Router   *actor.PID // knows the holders of blocks
	Capacity int64      // limit of bytes in flight to this node; default DefaultRemoteBytes
	Log      zerolog.Logger
}

// RemoteProps returns the props of a node's remote tier.
func RemoteProps(cfg RemoteConfig) *actor.Props {
	var incarnation uint64
	if cfg.Capacity == 0 {
		cfg.Capacity = DefaultRemoteBytes
	}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &remoteTier{RemoteConfig: cfg, incarnation: incarnation}
	})
}

type remoteTier struct {
	RemoteConfig
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	blocks  *kv.RemoteFetcher
	lookups map[string]*lookup       // by request id
	fetches map[string]*pendingFetch // by request id; in flight or waiting
}

// lookup is a FindBlocks that the router has not answered.
type lookup struct {
	asker  *actor.PID
	blocks []uint64 // as known to tiers
	asked  time.Time
}

// pendingFetch is a FetchBlocks that is not answered yet.
type pendingFetch struct {
	asker    *actor.PID // nil: the requester no longer waits
	command  *messages.FetchBlocks
	deadline time.Time
	leased   bool // the request was sent to the holder
}

// Notes to self.
type (
	leaseDone struct {
		incarnation uint64
		id          string
		result      *messages.LeaseBlocksResult
		err         error
	}
	sweep struct{ incarnation uint64 }
)

func (r *remoteTier) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		r.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		r.onEnd(ctx)
	case *messages.FindBlocks:
		r.onFind(ctx, msg)
	case *messages.FindBlocksResult:
		r.onFound(ctx, msg)
	case *messages.FetchBlocks:
		r.onFetch(ctx, msg)
	case *messages.ReleaseBlocks:
		r.onRelease(ctx, msg)
	case *leaseDone:
		r.onLeaseDone(ctx, msg)
	case *messages.BlocksFetched:
		r.onFetched(msg)
	case *messages.GetSlots:
		ctx.Respond(r.status())
	case *sweep:
		r.onSweep(ctx, msg)
	default:
		supervise.Unknown(ctx, "remote")
	}
}

func (r *remoteTier) onStarted(ctx actor.Context) {
	r.lifetime, r.cancel = context.WithCancel(context.Background())
	r.blocks = kv.NewRemoteFetcher(r.Capacity, maxWaiting)
	r.lookups, r.fetches = make(map[string]*lookup), make(map[string]*pendingFetch)
	r.Log.Info().Str("tier", RemoteName).Int64("capacity", r.Capacity).Uint64("incarnation", r.incarnation).
		Msg("tier started")
	r.onSweep(ctx, &sweep{r.incarnation})
}

// onEnd refuses all fetches, since no actor would handle their results.
func (r *remoteTier) onEnd(ctx actor.Context) {
	r.cancel()
	for id, f := range r.fetches {
		if f.leased {
			ctx.Send(holderOf(f.command), &messages.ReleaseBlocks{RequestId: id})
		}
		r.refuse(ctx, f, messages.Reason_REASON_NOT_READY,
			"the remote tier is stopping or restarting; compute the blocks, or retry", 0)
	}
}

// onFind forwards a lookup to the router.
func (r *remoteTier) onFind(ctx actor.Context, msg *messages.FindBlocks) {
	if len(r.lookups) >= maxLookups {
		ctx.Respond(&messages.FindBlocksResult{RequestId: msg.GetRequestId()})
		return
	}
	r.lookups[msg.GetRequestId()] = &lookup{ctx.Sender(), msg.GetInTiers(), time.Now()}
	ctx.Request(r.Router, msg)
}

// onFound answers a lookup with the holders and the paths to them.
func (r *remoteTier) onFound(ctx actor.Context, msg *messages.FindBlocksResult) {
	q := r.lookups[msg.GetRequestId()]
	if q == nil {
		return
	}
	delete(r.lookups, msg.GetRequestId())
	now := time.Now()
	result := &messages.FindBlocksResult{RequestId: msg.GetRequestId()}
	for _, run := range msg.GetHeld() {
		first := min(int(run.GetFirst()), len(q.blocks))
		r.blocks.MarkAvailable(q.blocks[first:min(first+int(run.GetBlocks()), len(q.blocks))], now)
		path := r.blocks.Path(run.GetName(), now)
		result.Held = append(result.Held, &messages.BlocksHeld{
			First: run.GetFirst(), Blocks: run.GetBlocks(), Holder: run.GetHolder(), Name: run.GetName(),
			Node: run.GetNode(),
			Path: &messages.HolderPath{
				Latency: durationpb.New(path.Latency), BytesPerSecond: path.Rate.PerSecond(),
				QueuedBytes: uint64(path.Queued), TryBlocks: uint32(path.ProbeBlocks),
			},
		})
	}
	if q.asker != nil {
		ctx.Send(q.asker, result)
	}
}

// onFetch starts a fetch as soon as the capacity allows.
func (r *remoteTier) onFetch(ctx actor.Context, msg *messages.FetchBlocks) {
	id := msg.GetRequestId()
	if f := r.fetches[id]; f != nil { // repeated request
		f.asker = ctx.Sender()
		return
	}
	f := &pendingFetch{asker: ctx.Sender(), command: msg, deadline: time.Now().Add(msg.GetWithin().AsDuration())}
	flight := kv.Fetch{ID: id, Holder: msg.GetFrom().GetName(),
		Bytes: int64(len(msg.GetHashes())) * int64(msg.GetBlockBytes())}
	for _, raw := range append([][]byte{msg.GetSpace()}, msg.GetHashes()...) {
		if len(raw) != len(kv.Hash{}) {
			r.refuse(ctx, f, messages.Reason_REASON_INVALID_ARGUMENT,
				fmt.Sprintf("invalid hash length %d; want %d bytes", len(raw), len(kv.Hash{})), 0)
			return
		}
	}
	for _, raw := range msg.GetHashes() {
		flight.Blocks = append(flight.Blocks, kv.Hash(raw).Namespaced(kv.Hash(msg.GetSpace())).Fingerprint64())
	}
	begin, err := r.blocks.Start(flight)
	if err != nil {
		r.refuse(ctx, f, messages.Reason_REASON_QUEUE_FULL,
			err.Error()+"; compute the blocks, or raise the limit with --kv-remote", retryDelay)
		return
	}
	r.fetches[id] = f
	r.lease(ctx, begin)
}

// lease asks the holders for the blocks of the fetches that may start.
func (r *remoteTier) lease(ctx actor.Context, begin []kv.Fetch) {
	for len(begin) > 0 {
		id := begin[0].ID
		begin = begin[1:]
		f := r.fetches[id]
		within := time.Until(f.deadline)
		if within <= 0 {
			begin = append(begin, r.refuseLate(ctx, id, f)...)
			continue
		}
		f.leased = true
		l := leaseRequest{root: ctx.ActorSystem().Root, holder: holderOf(f.command), timeout: within,
			lease: &messages.LeaseBlocks{
				RequestId: id, Hashes: f.command.GetHashes(), Space: f.command.GetSpace(),
				BlockBytes: f.command.GetBlockBytes(),
				Ticket:     f.command.GetTicket(), Lease: durationpb.New(within), PartBytes: f.command.GetPartBytes(),
			}}
		incarnation := r.incarnation
		supervise.Job(ctx, r.lifetime, l.run, func(result *messages.LeaseBlocksResult, err error) any {
			return &leaseDone{incarnation, id, result, err}
		})
	}
}

// refuseLate refuses a fetch that waited until its deadline and returns the fetches to start now.
func (r *remoteTier) refuseLate(ctx actor.Context, id string, f *pendingFetch) []kv.Fetch {
	delete(r.fetches, id)
	r.refuse(ctx, f, messages.Reason_REASON_DEADLINE,
		"no capacity for the fetch before its deadline; raise the limit with --kv-remote", 0)
	return r.blocks.Finish(id, 0)
}

// onLeaseDone forwards the holder's result to the requester.
func (r *remoteTier) onLeaseDone(ctx actor.Context, msg *leaseDone) {
	f := r.fetches[msg.id]
	if msg.incarnation != r.incarnation || f == nil {
		return
	}
	delete(r.fetches, msg.id)
	switch refused := msg.result.GetRefused(); {
	case msg.err != nil:
		r.refuse(ctx, f, messages.Reason_REASON_INTERNAL, msg.err.Error(), 0)
	case refused != nil:
		r.refuse(ctx, f, refused.GetReason(), refused.GetDetail(), refused.GetRetryAfter().AsDuration())
	case f.asker != nil:
		ctx.Send(f.asker, &messages.FetchBlocksResult{
			RequestId: msg.id, Outcome: &messages.FetchBlocksResult_Sent{Sent: msg.result.GetSent()},
		})
	}
	r.lease(ctx, r.blocks.Finish(msg.id, int(msg.result.GetSent().GetBlocks())))
}

// onRelease cancels a fetch whose requester no longer waits. A fetch that was sent to its holder
// ends with the holder's answer.
func (r *remoteTier) onRelease(ctx actor.Context, msg *messages.ReleaseBlocks) {
	f := r.fetches[msg.GetRequestId()]
	switch {
	case f == nil:
	case f.leased:
		f.asker = nil
		ctx.Send(holderOf(f.command), msg)
	default:
		delete(r.fetches, msg.GetRequestId())
		r.lease(ctx, r.blocks.Finish(msg.GetRequestId(), 0))
	}
}

func (r *remoteTier) onFetched(msg *messages.BlocksFetched) {
	r.blocks.Record(msg.GetFrom().GetName(), msg.GetFrom().GetNode(), int(msg.GetWanted()), kv.FetchSample{
		Blocks: int(min(msg.GetReceived(), msg.GetWanted())), BlockBytes: int(msg.GetBlockBytes()),
		Bytes: int64(msg.GetBytes()), FirstBytes: int64(msg.GetFirstBytes()),
		First: msg.GetFirst().AsDuration(), All: msg.GetTook().AsDuration(),
	}, time.Now())
}

// onSweep drops unanswered lookups and fetches that waited too long.
func (r *remoteTier) onSweep(ctx actor.Context, msg *sweep) {
	if msg.incarnation != r.incarnation {
		return
	}
	supervise.After(ctx, sweepInterval, msg)
	now := time.Now()
	for id, q := range r.lookups {
		if now.Sub(q.asked) > sweepInterval {
			delete(r.lookups, id)
		}
	}
	for id, f := range r.fetches {
		if !f.leased && now.After(f.deadline) {
			r.lease(ctx, r.refuseLate(ctx, id, f))
		}
	}
}

func (r *remoteTier) refuse(ctx actor.Context, f *pendingFetch, reason messages.Reason, detail string,
	again time.Duration) {
	if f.asker == nil {
		return
	}
	refused := &messages.Refused{Reason: reason, Detail: detail}
	if again > 0 {
		refused.RetryAfter = durationpb.New(again)
	}
	ctx.Send(f.asker, &messages.FetchBlocksResult{
		RequestId: f.command.GetRequestId(), Outcome: &messages.FetchBlocksResult_Refused{Refused: refused},
	})
}

func holderOf(msg *messages.FetchBlocks) *actor.PID {
	return actor.NewPID(msg.GetFrom().GetHolder().GetAddress(), msg.GetFrom().GetHolder().GetId())
}
