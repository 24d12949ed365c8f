package replica

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/lora"
	"troupe/messages"
)

const (
	adapterLookahead = 10                     // sequences at the head of the queue whose adapters are prefetched
	adapterTickEvery = 250 * time.Millisecond // between two checks for waiting sequences while no step ends
)

// adapterMaxWait is the maximum time that a sequence waits for its adapter, by class.
var adapterMaxWait = map[batch.Class]time.Duration{
	batch.Interactive: 10 * time.Second, batch.Standard: 30 * time.Second, batch.Batch: 2 * time.Minute,
}

// adapterState is the replica's view of its adapter pool. The pool decides which adapters are on
// the device; the pin client records which sequence pins which adapter.
type adapterState struct {
	pins            *lora.PinClient
	specs           map[string]*messages.AdapterSpec // by key; all requested adapters
	pool            *actor.PID                       // nil until pages are leased
	poolIncarnation uint64                           // 0: the pool is not ready
	leasing         bool                             // a LeaseAdapters is unanswered
	ticking         bool
	counts          *messages.AdapterCounts // last reported by the pool; nil before
	failedPins      map[string]string       // by key: last logged reason of an operator's pin that failed
}

// Notes to self.
type (
	retryLease  struct{ incarnation uint64 }
	adapterTick struct{ incarnation uint64 }
)

func (r *replica) maxAdapters() uint32 {
	if r.Adapters == nil {
		return 0
	}
	return cmp.Or(r.Spec.GetMaxAdapters(), messages.DefaultAdapters)
}

// openAdapters prepares the replica for sequences with adapters. It starts the pool if the lease
// already has pages for it.
func (r *replica) openAdapters(ctx actor.Context) {
	if r.Adapters == nil {
		return
	}
	r.lora = &adapterState{
		pins: lora.NewPinClient(fmt.Sprint(r.incarnation)), specs: make(map[string]*messages.AdapterSpec),
		failedPins: make(map[string]string),
	}
	r.batch.UseAdapters(lora.Policy{
		MaxAdapters: int(r.maxAdapters()), Lookahead: adapterLookahead,
		MaxWait: func(class int) time.Duration { return adapterMaxWait[batch.Class(class)] },
	}, r.lora.pins)
	if r.model.GetAdapterPages() > 0 {
		r.startPool(ctx)
	}
}

func (r *replica) startPool(ctx actor.Context) {
	pool, err := ctx.SpawnNamed(r.Adapters(r.model.GetLease()), "adapters")
	if err != nil {
		panic(err)
	}
	r.lora.pool = pool
}

func (r *replica) receiveAdapters(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case *messages.LeaseAdaptersResult:
		r.onAdaptersLeased(ctx, msg)
	case *retryLease:
		if msg.incarnation == r.incarnation && r.lora != nil && r.lora.leasing {
			r.lora.leasing = false
			r.leaseAdapterPages(ctx)
		}
	case *messages.AdaptersReady:
		r.onPoolReady(ctx, msg)
	case *messages.PinAdapterResult:
		r.onPinResult(ctx, msg)
	case *messages.AdaptersChanged:
		r.onAdaptersChanged(ctx, msg)
	case *messages.ApplyAdapter:
		r.onApplyAdapter(ctx, msg)
	case *messages.ForgetAdapter:
		r.onForgetAdapter(ctx, msg)
	case *adapterTick:
		if msg.incarnation == r.incarnation && r.lora != nil && !r.stopping {
			r.lora.ticking = false
			r.answerOffers(ctx)
			r.advance(ctx)
		}
	default:
		return false
	}
	return true
}

// checkAdapter returns a refusal if the adapter of a sequence cannot be served here.
func (r *replica) checkAdapter(seq *messages.SequenceSpec) *messages.Refused {
	spec := seq.GetAdapterSpec()
	switch {
	case seq.GetAdapter() == "" && spec == nil:
		return nil
	case spec.GetName() == "" || spec.GetName() != seq.GetAdapter() || spec.GetPath() == "":
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT,
			"adapter "+seq.GetAdapter()+" has an incomplete spec; register it", 0)
	case r.lora == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED,
			"replica "+r.Spec.GetName()+" takes no adapters; request model "+r.Spec.GetModel(), 0)
	}
	return r.checkBase(spec)
}

// requestAdapter handles the adapter of a new sequence, if it has one. The adapter is loaded while
// steps run.
func (r *replica) requestAdapter(ctx actor.Context, seq *messages.SequenceSpec) {
	if spec := seq.GetAdapterSpec(); spec != nil {
		if r.registerAdapter(ctx, spec); r.lora.poolIncarnation != 0 {
			ctx.Send(r.lora.pool, &messages.AdapterRequested{Adapter: spec})
		}
		r.batch.PrefetchAdapters()
	}
}

// registerAdapter records an adapter and leases pages for the first one.
func (r *replica) registerAdapter(ctx actor.Context, spec *messages.AdapterSpec) {
	if spec != nil {
		r.lora.specs[spec.Key()] = spec
		r.leaseAdapterPages(ctx)
	}
}

// leaseAdapterPages requests pages unless they are leased or requested.
func (r *replica) leaseAdapterPages(ctx actor.Context) {
	if r.lora.pool != nil || r.lora.leasing {
		return
	}
	r.lora.leasing = true
	ctx.Request(r.GPU, &messages.LeaseAdapters{RequestId: r.Spec.GetName(), Lease: r.model.GetLease(),
		Pages: r.Spec.GetAdapterPages()})
	supervise.After(ctx, requestRetryAfter, &retryLease{r.incarnation})
}

// onAdaptersLeased starts the pool over its pages. If there are none, it ends the sequences that
// need an adapter.
func (r *replica) onAdaptersLeased(ctx actor.Context, msg *messages.LeaseAdaptersResult) {
	if r.lora == nil || r.lora.pool != nil || r.stopping {
		return // repeated request
	}
	r.lora.leasing = false
	if refused := msg.GetRefused(); refused != nil {
		for id, c := range r.sequences {
			if c.spec.GetAdapterSpec() != nil {
				r.interrupt(ctx, id, refused)
				r.drop(ctx, id, "no memory for adapters")
			}
		}
		r.advance(ctx)
		return
	}
	r.startPool(ctx)
}

// onPoolReady handles the start of an incarnation of the pool. It first sends the pins in effect,
// so that no adapter that a step reads is evicted.
func (r *replica) onPoolReady(ctx actor.Context, msg *messages.AdaptersReady) {
	if r.lora == nil || r.stopping {
		return
	}
	r.lora.poolIncarnation = msg.GetIncarnation()
	adopt := &messages.AdoptPins{Incarnation: msg.GetIncarnation()}
	for _, a := range r.lora.pins.OnPoolRestart() {
		adopt.Pins = append(adopt.Pins, r.pinMessage(a))
	}
	ctx.Send(r.lora.pool, adopt)
	r.advance(ctx)
}

func (r *replica) pinMessage(a lora.PinCommand) *messages.PinAdapter {
	return &messages.PinAdapter{RequestId: a.Name, Adapter: r.lora.specs[a.Adapter]}
}

// syncPins sends the pending pins to the pool and, between two steps, the pending unpins.
func (r *replica) syncPins(ctx actor.Context) {
	if r.lora == nil || r.lora.poolIncarnation == 0 || r.stopping {
		return
	}
	for _, a := range r.lora.pins.Drain(r.step != nil || len(r.isolated) > 0) {
		if a.Unpin {
			ctx.Send(r.lora.pool, &messages.UnpinAdapter{RequestId: a.Name})
			continue
		}
		ctx.Send(r.lora.pool, r.pinMessage(a))
	}
	// adapterTick bounds the time that sequences wait for an adapter.
	if r.step == nil && r.batch.Waiting()+len(r.migrations.target.Postponed()) > 0 && !r.lora.ticking {
		r.lora.ticking = true
		supervise.After(ctx, adapterTickEvery, &adapterTick{r.incarnation})
	}
}

// onPinResult records that an adapter is pinned or cannot be pinned.
func (r *replica) onPinResult(ctx actor.Context, msg *messages.PinAdapterResult) {
	if r.lora == nil || r.stopping {
		return
	}
	r.lora.pins.OnPinResult(msg.GetRequestId(), refusedByPool(msg.GetRefused()))
	r.answerOffers(ctx)
	r.advance(ctx)
}

// interruptRejected interrupts sequences whose adapters cannot be pinned.
func (r *replica) interruptRejected(ctx actor.Context, all []lora.Rejected) {
	for _, w := range all {
		r.Log.Info().Str("request", w.ID).Str("adapter", w.Adapter).Str("why", w.Refusal.Detail).
			Msg("sequence rejected")
		if _, ok := r.sequences[w.ID]; ok {
			r.interrupt(ctx, w.ID, &messages.Refused{Reason: reasonToMessage[w.Refusal.Reason],
				Detail: w.Refusal.Detail})
		}
		r.drop(ctx, w.ID, w.Refusal.Detail)
	}
}
