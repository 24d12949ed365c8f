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
	adapterAhead = 10                     // sequences at the head of the line whose adapters are loaded ahead
	adapterTick  = 250 * time.Millisecond // between two looks at who waits for an adapter, while no step ends
)

// adapterWait is how long a sequence waits for its adapter, by class.
var adapterWait = map[batch.Class]time.Duration{
	batch.Interactive: 10 * time.Second, batch.Standard: 30 * time.Second, batch.Batch: 2 * time.Minute,
}

// adapters are what a replica knows of its pool of adapters. The pool decides what is on the device; the desk, which sequences hold what.
type adapters struct {
	desk    *lora.PinClient
	specs   map[string]*messages.AdapterSpec // by key, of those that were asked for
	pool    *actor.PID                       // nil until there are pages
	life    uint64                           // of the pool; 0: it is not ready
	leasing bool                             // pages are asked for
	ticking bool
	counts  *messages.AdapterCounts // as the pool said last; nil before
	lacking map[string]string       // by key, of those that are pinned and could not be had: why, as it was logged
}

// Notes to self.
type (
	leaseAgain  struct{ incarnation uint64 }
	adapterBeat struct{ incarnation uint64 }
)

func (r *replica) maxAdapters() uint32 {
	if r.Adapters == nil {
		return 0
	}
	return cmp.Or(r.Spec.GetMaxAdapters(), messages.DefaultAdapters)
}

// openAdapters makes ready for sequences with adapters. Where the lease has pages for them already, the pool is started.
func (r *replica) openAdapters(ctx actor.Context) {
	if r.Adapters == nil {
		return
	}
	r.lora = &adapters{
		desk: lora.NewPinClient(fmt.Sprint(r.incarnation)), specs: make(map[string]*messages.AdapterSpec), lacking: make(map[string]string),
	}
	r.batch.UseAdapters(lora.Policy{
		MaxAdapters: int(r.maxAdapters()), Lookahead: adapterAhead, MaxWait: func(class int) time.Duration { return adapterWait[batch.Class(class)] },
	}, r.lora.desk)
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
	case *leaseAgain:
		if msg.incarnation == r.incarnation && r.lora != nil && r.lora.leasing {
			r.lora.leasing = false
			r.lease(ctx)
		}
	case *messages.AdaptersReady:
		r.onPoolReady(ctx, msg)
	case *messages.PinAdapterResult:
		r.onPinned(ctx, msg)
	case *messages.AdaptersChanged:
		r.onAdaptersChanged(ctx, msg)
	case *messages.ApplyAdapter:
		r.onApplyAdapter(ctx, msg)
	case *messages.ForgetAdapter:
		r.onForgetAdapter(ctx, msg)
	case *adapterBeat:
		if msg.incarnation == r.incarnation && r.lora != nil && !r.ending {
			r.lora.ticking = false
			if r.step == nil && len(r.solo) == 0 {
				r.takeOffers(ctx)
			}
			r.advance(ctx)
		}
	default:
		return false
	}
	return true
}

// refuseAdapter says why a sequence's adapter can not be served here.
func (r *replica) refuseAdapter(seq *messages.SequenceSpec) *messages.Refused {
	spec := seq.GetAdapterSpec()
	switch {
	case seq.GetAdapter() == "" && spec == nil:
		return nil
	case spec.GetName() == "" || spec.GetName() != seq.GetAdapter() || spec.GetPath() == "":
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT, "adapter "+seq.GetAdapter()+" comes without its description; register it", 0)
	case r.lora == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED, "replica "+r.Spec.GetName()+" takes no adapters; ask for model "+r.Spec.GetModel(), 0)
	}
	return r.otherBase(spec)
}

// wantAdapter: a sequence has come that may have an adapter. It is loaded while a step is in flight.
func (r *replica) wantAdapter(ctx actor.Context, seq *messages.SequenceSpec) {
	if spec := seq.GetAdapterSpec(); spec != nil {
		if r.noteAdapter(ctx, spec); r.lora.life != 0 {
			ctx.Send(r.lora.pool, &messages.AdapterRequested{Adapter: spec})
		}
		r.batch.PrefetchAdapters()
	}
}

// noteAdapter makes an adapter known, and has pages leased for the first one.
func (r *replica) noteAdapter(ctx actor.Context, spec *messages.AdapterSpec) {
	if spec != nil {
		r.lora.specs[spec.Key()] = spec
		r.lease(ctx)
	}
}

// lease asks for pages, unless there are some.
func (r *replica) lease(ctx actor.Context) {
	if r.lora.pool != nil || r.lora.leasing {
		return
	}
	r.lora.leasing = true
	ctx.Request(r.GPU, &messages.LeaseAdapters{RequestId: r.Spec.GetName(), Lease: r.model.GetLease(), Pages: r.Spec.GetAdapterPages()})
	supervise.After(ctx, askAgainAfter, &leaseAgain{r.incarnation})
}

// onAdaptersLeased starts the pool over its pages, or gives up the sequences that need one.
func (r *replica) onAdaptersLeased(ctx actor.Context, msg *messages.LeaseAdaptersResult) {
	if r.lora == nil || r.lora.pool != nil || r.ending {
		return // asked twice
	}
	r.lora.leasing = false
	if refused := msg.GetRefused(); refused != nil {
		for id, c := range r.calls {
			if c.sequence.GetAdapterSpec() != nil {
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
	if r.lora == nil || r.ending {
		return
	}
	r.lora.life = msg.GetIncarnation()
	adopt := &messages.AdoptPins{Incarnation: msg.GetIncarnation()}
	for _, a := range r.lora.desk.OnPoolRestart() {
		adopt.Pins = append(adopt.Pins, r.pinOf(a))
	}
	ctx.Send(r.lora.pool, adopt)
	r.advance(ctx)
}

func (r *replica) pinOf(a lora.PinCommand) *messages.PinAdapter {
	return &messages.PinAdapter{RequestId: a.Name, Adapter: r.lora.specs[a.Adapter]}
}

// askPool tells the pool which adapters are wanted, and between two steps which are not any more.
func (r *replica) askPool(ctx actor.Context) {
	if r.lora == nil || r.lora.life == 0 || r.ending {
		return
	}
	for _, a := range r.lora.desk.Drain(r.step != nil || len(r.solo) > 0) {
		if a.Unpin {
			ctx.Send(r.lora.pool, &messages.UnpinAdapter{RequestId: a.Name})
			continue
		}
		ctx.Send(r.lora.pool, r.pinOf(a))
	}
	if r.step == nil && r.batch.Waiting()+len(r.offers) > 0 && !r.lora.ticking { // so that nobody waits for ever
		r.lora.ticking = true
		supervise.After(ctx, adapterTick, &adapterBeat{r.incarnation})
	}
}

// onPinned: an adapter is there, or can not be had.
func (r *replica) onPinned(ctx actor.Context, msg *messages.PinAdapterResult) {
	if r.lora == nil || r.ending {
		return
	}
	r.lora.desk.OnPinResult(msg.GetRequestId(), refusedByPool(msg.GetRefused()))
	if r.step == nil && len(r.solo) == 0 {
		r.takeOffers(ctx)
	}
	r.advance(ctx)
}

// rejected gives up sequences whose adapters can not be had.
func (r *replica) rejected(ctx actor.Context, all []lora.Rejected) {
	for _, w := range all {
		r.Log.Info().Str("request", w.ID).Str("adapter", w.Adapter).Str("why", w.Refusal.Detail).Msg("sequence rejected")
		if _, ok := r.calls[w.ID]; ok {
			r.interrupt(ctx, w.ID, &messages.Refused{Reason: adapterReasons[w.Refusal.Reason], Detail: w.Refusal.Detail})
		}
		r.drop(ctx, w.ID, w.Refusal.Detail)
	}
}
