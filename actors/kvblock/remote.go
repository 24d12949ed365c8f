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

// RemoteName is what the remote tier is called, beside "hbm", "dram" and "nvme".
const RemoteName = "remote"

// DefaultRemoteBytes may be on their way from other nodes at once.
const DefaultRemoteBytes = 256 << 20

const (
	maxQuestions = 256 // to the router, without an answer
	maxWaiting   = 64  // fetches
	sweepEvery   = time.Second
)

// RemoteConfig describes the remote tier. It is fixed for the life of the actor and shared by its restarts.
type RemoteConfig struct {
	Router   *actor.PID // knows who holds what
	Capacity int64      // bytes that may be on their way to this node at once; default DefaultRemoteBytes
	Log      zerolog.Logger
}

// RemoteProps returns the recipe for the remote tier of a node.
func RemoteProps(cfg RemoteConfig) *actor.Props {
	var incarnation uint64
	if cfg.Capacity == 0 {
		cfg.Capacity = DefaultRemoteBytes
	}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &remote{RemoteConfig: cfg, incarnation: incarnation}
	})
}

type remote struct {
	RemoteConfig
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	end         context.CancelFunc

	blocks    *kv.RemoteFetcher
	questions map[string]*question // request id -> what the router was asked
	fetches   map[string]*fetching // request id -> under way, or waiting
}

// question is a FindBlocks that the router has not answered.
type question struct {
	asker  *actor.PID
	blocks []uint64 // in tiers
	asked  time.Time
}

// fetching is a FetchBlocks that was not answered.
type fetching struct {
	asker    *actor.PID // nil: nobody waits any more
	command  *messages.FetchBlocks
	deadline time.Time
	leased   bool // the holder was asked
}

// Notes to self.
type (
	leased struct {
		incarnation uint64
		id          string
		result      *messages.LeaseBlocksResult
		err         error
	}
	swept struct{ incarnation uint64 }
)

func (r *remote) Receive(ctx actor.Context) {
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
	case *leased:
		r.onLeased(ctx, msg)
	case *messages.BlocksFetched:
		r.onFetched(msg)
	case *messages.GetSlots:
		ctx.Respond(r.status())
	case *swept:
		r.onSwept(ctx, msg)
	}
}

func (r *remote) onStarted(ctx actor.Context) {
	r.life, r.end = context.WithCancel(context.Background())
	r.blocks = kv.NewRemoteFetcher(r.Capacity, maxWaiting)
	r.questions, r.fetches = make(map[string]*question), make(map[string]*fetching)
	r.Log.Info().Str("tier", RemoteName).Int64("capacity", r.Capacity).Uint64("incarnation", r.incarnation).Msg("tier started")
	r.onSwept(ctx, &swept{r.incarnation})
}

// onEnd gives up all fetches: nobody would hear how they end.
func (r *remote) onEnd(ctx actor.Context) {
	r.end()
	for id, f := range r.fetches {
		if f.leased {
			ctx.Send(holderOf(f.command), &messages.ReleaseBlocks{RequestId: id})
		}
		r.refuse(ctx, f, messages.Reason_REASON_NOT_READY, "the remote tier ends, or begins anew; compute the blocks, or ask again", 0)
	}
}

// onFind passes a question on to the router.
func (r *remote) onFind(ctx actor.Context, msg *messages.FindBlocks) {
	if len(r.questions) >= maxQuestions {
		ctx.Respond(&messages.FindBlocksResult{RequestId: msg.GetRequestId()})
		return
	}
	r.questions[msg.GetRequestId()] = &question{ctx.Sender(), msg.GetInTiers(), time.Now()}
	ctx.Request(r.Router, msg)
}

// onFound says who holds what, and how the way there is.
func (r *remote) onFound(ctx actor.Context, msg *messages.FindBlocksResult) {
	q := r.questions[msg.GetRequestId()]
	if q == nil {
		return
	}
	delete(r.questions, msg.GetRequestId())
	now := time.Now()
	result := &messages.FindBlocksResult{RequestId: msg.GetRequestId()}
	for _, run := range msg.GetHeld() {
		first := min(int(run.GetFirst()), len(q.blocks))
		r.blocks.MarkAvailable(q.blocks[first:min(first+int(run.GetBlocks()), len(q.blocks))], now)
		path := r.blocks.Path(run.GetName(), now)
		result.Held = append(result.Held, &messages.BlocksHeld{
			First: run.GetFirst(), Blocks: run.GetBlocks(), Holder: run.GetHolder(), Name: run.GetName(), Node: run.GetNode(),
			Path: &messages.HolderPath{
				Latency: durationpb.New(path.Latency), BytesPerSecond: path.Rate.PerSecond(), QueuedBytes: uint64(path.Queued), TryBlocks: uint32(path.ProbeBlocks),
			},
		})
	}
	if q.asker != nil {
		ctx.Send(q.asker, result)
	}
}

// onFetch begins a fetch once there is room for it.
func (r *remote) onFetch(ctx actor.Context, msg *messages.FetchBlocks) {
	id := msg.GetRequestId()
	if f := r.fetches[id]; f != nil { // it was repeated
		f.asker = ctx.Sender()
		return
	}
	f := &fetching{asker: ctx.Sender(), command: msg, deadline: time.Now().Add(msg.GetWithin().AsDuration())}
	flight := kv.Fetch{ID: id, Holder: msg.GetFrom().GetName(), Bytes: int64(len(msg.GetHashes())) * int64(msg.GetBlockBytes())}
	for _, raw := range append([][]byte{msg.GetSpace()}, msg.GetHashes()...) {
		if len(raw) != len(kv.Hash{}) {
			r.refuse(ctx, f, messages.Reason_REASON_INVALID_ARGUMENT, fmt.Sprintf("a hash has %d bytes, not %d", len(kv.Hash{}), len(raw)), 0)
			return
		}
	}
	for _, raw := range msg.GetHashes() {
		flight.Blocks = append(flight.Blocks, kv.Hash(raw).Namespaced(kv.Hash(msg.GetSpace())).Fingerprint64())
	}
	begin, err := r.blocks.Start(flight)
	if err != nil {
		r.refuse(ctx, f, messages.Reason_REASON_QUEUE_FULL, err.Error()+"; compute the blocks, or let more come at once with --kv-remote", askAgainIn)
		return
	}
	r.fetches[id] = f
	r.lease(ctx, begin)
}

// lease asks the holders for the blocks of fetches that may begin.
func (r *remote) lease(ctx actor.Context, begin []kv.Fetch) {
	for len(begin) > 0 {
		id := begin[0].ID
		begin = begin[1:]
		f := r.fetches[id]
		within := time.Until(f.deadline)
		if within <= 0 {
			begin = append(begin, r.late(ctx, id, f)...)
			continue
		}
		f.leased = true
		l := leasing{root: ctx.ActorSystem().Root, holder: holderOf(f.command), within: within, lease: &messages.LeaseBlocks{
			RequestId: id, Hashes: f.command.GetHashes(), Space: f.command.GetSpace(), BlockBytes: f.command.GetBlockBytes(),
			Ticket: f.command.GetTicket(), Lease: durationpb.New(within), PartBytes: f.command.GetPartBytes(),
		}}
		incarnation := r.incarnation
		supervise.Job(ctx, r.life, l.run, func(result *messages.LeaseBlocksResult, err error) any {
			return &leased{incarnation, id, result, err}
		})
	}
}

// late refuses a fetch that no room came for in time, and returns those that may begin now.
func (r *remote) late(ctx actor.Context, id string, f *fetching) []kv.Fetch {
	delete(r.fetches, id)
	r.refuse(ctx, f, messages.Reason_REASON_DEADLINE, "no room came for it in time; let more come at once with --kv-remote", 0)
	return r.blocks.Finish(id, 0)
}

// onLeased: the holder has sent what it has, or it is said why not.
func (r *remote) onLeased(ctx actor.Context, msg *leased) {
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
		ctx.Send(f.asker, &messages.FetchBlocksResult{RequestId: msg.id, Outcome: &messages.FetchBlocksResult_Sent{Sent: msg.result.GetSent()}})
	}
	r.lease(ctx, r.blocks.Finish(msg.id, int(msg.result.GetSent().GetBlocks())))
}

// onRelease: nobody waits for a fetch any more. Where the holder was asked, its answer ends it.
func (r *remote) onRelease(ctx actor.Context, msg *messages.ReleaseBlocks) {
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

func (r *remote) onFetched(msg *messages.BlocksFetched) {
	r.blocks.Record(msg.GetFrom().GetName(), msg.GetFrom().GetNode(), int(msg.GetWanted()), kv.FetchSample{
		Blocks: int(min(msg.GetCame(), msg.GetWanted())), BlockBytes: int(msg.GetBlockBytes()), Bytes: int64(msg.GetBytes()), FirstBytes: int64(msg.GetFirstBytes()),
		First: msg.GetFirst().AsDuration(), All: msg.GetTook().AsDuration(),
	}, time.Now())
}

// onSwept forgets what nobody waits for any more: questions without an answer, and fetches that waited for too long.
func (r *remote) onSwept(ctx actor.Context, msg *swept) {
	if msg.incarnation != r.incarnation {
		return
	}
	supervise.After(ctx, sweepEvery, msg)
	now := time.Now()
	for id, q := range r.questions {
		if now.Sub(q.asked) > sweepEvery {
			delete(r.questions, id)
		}
	}
	for id, f := range r.fetches {
		if !f.leased && now.After(f.deadline) {
			r.lease(ctx, r.late(ctx, id, f))
		}
	}
}

func (r *remote) refuse(ctx actor.Context, f *fetching, reason messages.Reason, detail string, again time.Duration) {
	if f.asker == nil {
		return
	}
	refused := &messages.Refused{Reason: reason, Detail: detail}
	if again > 0 {
		refused.RetryAfter = durationpb.New(again)
	}
	ctx.Send(f.asker, &messages.FetchBlocksResult{RequestId: f.command.GetRequestId(), Outcome: &messages.FetchBlocksResult_Refused{Refused: refused}})
}

func holderOf(msg *messages.FetchBlocks) *actor.PID {
	return actor.NewPID(msg.GetFrom().GetHolder().GetAddress(), msg.GetFrom().GetHolder().GetId())
}
