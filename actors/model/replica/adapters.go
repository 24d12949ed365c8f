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
	adapterLookahead = 10                     // sequences at the head of the line whose adapterState are loaded ahead
	adapterTickEvery = 250 * time.Millisecond // between two looks at who waits for an adapter, while no step ends
)

// adapterMaxWait is how long a spec waits for its adapter, by class.
var adapterMaxWait = map[batch.Class]time.Duration{
	batch.Interactive: 10 * time.Second, batch.Standard: 30 * time.Second, batch.Batch: 2 * time.Minute,
}

// adapterState are what a replica knows of its pool of adapterState. The pool decides what is on the device; the desk, which sequences hold what.
type adapterState struct {
	pins            *lora.PinClient
	specs           map[string]*messages.AdapterSpec // by key, of those that were asked for
	pool            *actor.PID                       // nil until there are pages
	poolIncarnation uint64                           // of the pool; 0: it is not ready
	leasing         bool                             // pages are asked for
	ticking         bool
	counts          *messages.AdapterCounts // as the pool said last; nil before
	failedPins      map[string]string       // by key, of those that are pinned and could not be had: why, as it was logged
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

// openAdapters makes ready for sequences with adapterState. Where the lease has pages for them already, the pool is started.
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
			if r.step == nil && len(r.isolated) == 0 {
				r.answerOffers(ctx)
			}
			r.advance(ctx)
		}
	default:
		return false
	}
	return true
}

// checkAdapter says why a spec's adapter can not be served here.
func (r *replica) checkAdapter(seq *messages.SequenceSpec) *messages.Refused {
	spec := seq.GetAdapterSpec()
	switch {
	case seq.GetAdapter() == "" && spec == nil:
		return nil
	case spec.GetName() == "" || spec.GetName() != seq.GetAdapter() || spec.GetPath() == "":
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT,
			"adapter "+seq.GetAdapter()+" comes without its description; register it", 0)
	case r.lora == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED,
			"replica "+r.Spec.GetName()+" takes no adapters; ask for model "+r.Spec.GetModel(), 0)
	}
	return r.checkBase(spec)
}

// requestAdapter: a spec has come that may have an adapter. It is loaded while a step is in flight.
func (r *replica) requestAdapter(ctx actor.Context, seq *messages.SequenceSpec) {
	if spec := seq.GetAdapterSpec(); spec != nil {
		if r.registerAdapter(ctx, spec); r.lora.poolIncarnation != 0 {
			ctx.Send(r.lora.pool, &messages.AdapterRequested{Adapter: spec})
		}
		r.batch.PrefetchAdapters()
	}
}

// registerAdapter makes an adapter known, and has pages leased for the first one.
func (r *replica) registerAdapter(ctx actor.Context, spec *messages.AdapterSpec) {
	if spec != nil {
		r.lora.specs[spec.Key()] = spec
		r.leaseAdapterPages(ctx)
	}
}

// lease asks for pages, unless there are some.
func (r *replica) leaseAdapterPages(ctx actor.Context) {
	if r.lora.pool != nil || r.lora.leasing {
		return
	}
	r.lora.leasing = true
	ctx.Request(r.GPU, &messages.LeaseAdapters{RequestId: r.Spec.GetName(), Lease: r.model.GetLease(),
		Pages: r.Spec.GetAdapterPages()})
	supervise.After(ctx, requestRetryAfter, &retryLease{r.incarnation})
}

// onAdaptersLeased starts the pool over its pages, or gives up the sequences that need one.
func (r *replica) onAdaptersLeased(ctx actor.Context, msg *messages.LeaseAdaptersResult) {
	if r.lora == nil || r.lora.pool != nil || r.stopping {
		return // asked twice
	}
	r.lora.leasing = false
	if refused := msg.GetRefused(); refused != nil {
		for id, c := range r.sequences {
			if c.spec.GetAdapterSpec() != nil {
				r.interrupt(ctx, id, refused)
				r.drop(ctx, id, "there is no memory for adapters")
			}
		}
		r.advance(ctx)
		return
	}
	r.startPool(ctx)
}

// onPoolReady: a life of the pool begins. What steps may read is held before anything else.
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

// syncPins tells the pool which adapterState are wanted, and between two steps which are not any more.
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
	if r.step == nil && r.batch.Waiting()+len(r.pendingOffers) > 0 && !r.lora.ticking { // so that nobody waits for ever
		r.lora.ticking = true
		supervise.After(ctx, adapterTickEvery, &adapterTick{r.incarnation})
	}
}

// onPinResult: an adapter is there, or can not be had.
func (r *replica) onPinResult(ctx actor.Context, msg *messages.PinAdapterResult) {
	if r.lora == nil || r.stopping {
		return
	}
	r.lora.pins.OnPinResult(msg.GetRequestId(), refusedByPool(msg.GetRefused()))
	if r.step == nil && len(r.isolated) == 0 {
		r.answerOffers(ctx)
	}
	r.advance(ctx)
}

// interruptRejected gives up sequences whose adapterState can not be had.
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
