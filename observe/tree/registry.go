package tree

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Event is a state change of an actor.
type Event struct {
	Kind   string // "actor.started", "actor.failed", "actor.restarted", "actor.stopped"
	ID     string
	Actor  string // kind of the actor
	Detail string
}

// publishEvery is the number of messages that a busy actor handles between updates of its published
// count. An update costs more than the rest of the bookkeeping.
const publishEvery = 64

// Registry records the actors of one node. It is safe for concurrent use.
type Registry struct {
	onEvent func(Event)

	mu      sync.Mutex
	records map[string]*record // id -> actor
}

// New returns an empty registry. It calls onEvent for every state change; onEvent must not block
// and may be nil.
func New(onEvent func(Event)) *Registry {
	if onEvent == nil {
		onEvent = func(Event) {}
	}
	return &Registry{onEvent: onEvent, records: make(map[string]*record)}
}

// record holds the state of one actor.
type record struct {
	registry *Registry
	kind     string
	of       string // the object that the actor serves, if its name does not show it
	system   *actor.ActorSystem
	pid      *actor.PID
	mailbox  actor.Mailbox
	started  time.Time

	state    atomic.Int32  // messages.ActorState
	handled  uint64        // user messages; used only by the mailbox's goroutine
	messages atomic.Uint64 // published value of handled
	restarts atomic.Uint64
	failure  atomic.Pointer[messages.ActorFailure]

	watching map[watcher]bool // used only by the mailbox's goroutine
	watchers atomic.Int64     // published number of watchers
}

// watcher identifies an actor that watches another one.
type watcher struct{ address, id string }

// Instrument registers the actor that is spawned from props. Use props for one actor only, at most
// spawned again under the same name.
func (r *Registry) Instrument(kind string, props *actor.Props) *actor.Props {
	return r.InstrumentOf(kind, "", props)
}

// InstrumentOf is like Instrument, but also records which object the actor serves, for actors whose
// name does not show it.
func (r *Registry) InstrumentOf(kind, of string, props *actor.Props) *actor.Props {
	var next *record
	return props.Configure(
		actor.WithMailbox(func() actor.Mailbox {
			next = &record{registry: r, kind: kind, of: of, started: time.Now()}
			next.state.Store(int32(messages.ActorState_ACTOR_STATE_STARTING))
			next.mailbox = actor.Unbounded()()
			return &mailbox{Mailbox: next.mailbox, record: next, registered: make(chan struct{})}
		}),
		actor.WithOnInit(func(ctx actor.Context) {
			next.system, next.pid = ctx.ActorSystem(), ctx.Self()
			r.mu.Lock()
			r.records[next.pid.GetId()] = next
			r.mu.Unlock()
		}),
	)
}

// mailbox lets a record observe the messages of an actor.
//
// Protoactor publishes a name before it registers the mailbox's handlers. A post in between would
// run the mailbox without a dispatcher, so posts wait until then.
type mailbox struct {
	actor.Mailbox
	record     *record
	ready      atomic.Bool
	registered chan struct{}
}

// RegisterHandlers implements actor.Mailbox. It is called once.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	if s, ok := dispatcher.(supervise.MailboxSource); ok {
		m.Mailbox = s.NewMailbox()
		m.record.mailbox = m.Mailbox
	}
	m.Mailbox.RegisterHandlers(&observer{invoker, supervise.EndAfterStop(invoker, m.Mailbox), m.record}, dispatcher)
	m.ready.Store(true)
	close(m.registered)
}

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	m.await()
	m.Mailbox.PostUserMessage(message)
}

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(message any) {
	m.await()
	m.Mailbox.PostSystemMessage(message)
}

func (m *mailbox) await() {
	if !m.ready.Load() {
		<-m.registered
	}
}

// observer sees each message before the actor does.
type observer struct {
	actor.MessageInvoker
	mortal actor.MessageInvoker // receives system messages and failures
	*record
}

// Unwrap returns the actor itself; see supervise.Unwrap.
func (o *observer) Unwrap() actor.MessageInvoker { return o.MessageInvoker }

// InvokeUserMessage implements actor.MessageInvoker. It publishes the count when the mailbox is
// empty and every publishEvery messages, since publishing costs more than the rest.
func (o *observer) InvokeUserMessage(message any) {
	if o.handled++; o.handled%publishEvery == 0 || o.mailbox.UserMessageCount() == 0 {
		o.messages.Store(o.handled)
	}
	o.MessageInvoker.InvokeUserMessage(message)
}

// InvokeSystemMessage implements actor.MessageInvoker.
func (o *observer) InvokeSystemMessage(message any) {
	o.mortal.InvokeSystemMessage(message)
	switch message.(type) {
	case *actor.Started:
		o.enter(messages.ActorState_ACTOR_STATE_RUNNING)
		o.tell("actor.started", "")
	case *actor.Restart:
		o.restarts.Add(1)
		o.enter(messages.ActorState_ACTOR_STATE_RUNNING)
		o.tell("actor.restarted", "")
	case *actor.Stop, *actor.Terminated:
		o.leave(message)
	}
	switch m := message.(type) {
	case *actor.Watch:
		o.watch(m.GetWatcher(), true)
	case *actor.Unwatch:
		o.watch(m.GetWatcher(), false)
	}
}

// EscalateFailure implements actor.MessageInvoker.
func (o *observer) EscalateFailure(reason, message any) {
	o.enter(messages.ActorState_ACTOR_STATE_RESTARTING)
	o.mortal.EscalateFailure(reason, message)
}

// watch counts the watchers of this actor like protoactor, each once.
func (r *record) watch(who *actor.PID, on bool) {
	w := watcher{who.GetAddress(), who.GetId()}
	if on {
		if r.watching == nil {
			r.watching = make(map[watcher]bool)
		}
		r.watching[w] = true
	} else {
		delete(r.watching, w)
	}
	r.watchers.Store(int64(len(r.watching)))
}

func (r *record) enter(s messages.ActorState) { r.state.Store(int32(s)) }

func (r *record) tell(kind, detail string) {
	r.registry.onEvent(Event{Kind: kind, ID: r.pid.GetId(), Actor: r.kind, Detail: detail})
}

// leave marks the actor as stopping, and removes it when it and all its children have stopped.
func (r *record) leave(message any) {
	if _, stop := message.(*actor.Stop); stop {
		r.enter(messages.ActorState_ACTOR_STATE_STOPPING)
	}
	if _, alive := r.system.ProcessRegistry.GetLocal(r.pid.GetId()); alive {
		return
	}
	r.enter(messages.ActorState_ACTOR_STATE_STOPPED)
	r.registry.mu.Lock()
	if r.registry.records[r.pid.GetId()] == r {
		delete(r.registry.records, r.pid.GetId())
	}
	r.registry.mu.Unlock()
	r.tell("actor.stopped", "")
}

// RecordFailure records a crash reported by a supervisor.
func (r *Registry) RecordFailure(id string, reason, message any, at time.Time) {
	r.mu.Lock()
	rec, ok := r.records[id]
	r.mu.Unlock()
	if !ok {
		return
	}
	f := &messages.ActorFailure{
		Reason:  fmt.Sprint(reason),
		Message: fmt.Sprintf("%T", message),
		Time:    timestamppb.New(at),
	}
	rec.failure.Store(f)
	rec.tell("actor.failed", f.GetReason()+" on "+f.GetMessage())
}
