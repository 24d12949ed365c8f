package tree

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

// Event is a transition of an actor.
type Event struct {
	Kind   string // "actor.started", "actor.failed", "actor.restarted", "actor.stopped"
	ID     string
	Actor  string // kind of the actor
	Detail string
}

// Registry is the register of one node. It is safe for concurrent use.
type Registry struct {
	onEvent func(Event)

	mu      sync.Mutex
	records map[string]*record // id -> actor
}

// New returns an empty register. Every transition is given to onEvent, which must not block; nil gives none.
func New(onEvent func(Event)) *Registry {
	if onEvent == nil {
		onEvent = func(Event) {}
	}
	return &Registry{onEvent: onEvent, records: make(map[string]*record)}
}

// record is what is known of one actor. It implements actor.MailboxMiddleware.
type record struct {
	registry *Registry
	kind     string
	system   *actor.ActorSystem
	pid      *actor.PID
	mailbox  actor.Mailbox
	started  time.Time

	state    atomic.Int32 // messages.ActorState
	messages atomic.Uint64
	restarts atomic.Uint64
	failure  atomic.Pointer[messages.ActorFailure]
}

// Instrument makes the actor that is spawned from props known to the register. Props must be of one actor alone: spawned
// again under the same name at the most.
func (r *Registry) Instrument(kind string, props *actor.Props) *actor.Props {
	var next *record
	return props.Configure(
		actor.WithMailbox(func() actor.Mailbox {
			next = &record{registry: r, kind: kind, started: time.Now()}
			next.state.Store(int32(messages.ActorState_ACTOR_STATE_STARTING))
			next.mailbox = actor.Unbounded(next)()
			return next.mailbox
		}),
		actor.WithOnInit(func(ctx actor.Context) {
			next.system, next.pid = ctx.ActorSystem(), ctx.Self()
			r.mu.Lock()
			r.records[next.pid.GetId()] = next
			r.mu.Unlock()
		}),
	)
}

// MailboxStarted implements actor.MailboxMiddleware.
func (r *record) MailboxStarted() {}

// MessagePosted implements actor.MailboxMiddleware.
func (r *record) MessagePosted(any) {}

// MailboxEmpty implements actor.MailboxMiddleware.
func (r *record) MailboxEmpty() {}

// MessageReceived implements actor.MailboxMiddleware: it is called after a message was handled.
func (r *record) MessageReceived(message any) {
	switch message.(type) {
	case *actor.Started:
		r.enter(messages.ActorState_ACTOR_STATE_RUNNING)
		r.tell("actor.started", "")
	case *actor.SuspendMailbox:
		r.enter(messages.ActorState_ACTOR_STATE_RESTARTING)
	case *actor.ResumeMailbox:
		r.enter(messages.ActorState_ACTOR_STATE_RUNNING)
	case *actor.Restart:
		r.restarts.Add(1)
		r.tell("actor.restarted", "")
	case *actor.Stop, *actor.Terminated:
		r.leave(message)
	case *actor.Watch, *actor.Unwatch, *actor.Failure:
	default:
		r.messages.Add(1)
	}
}

func (r *record) enter(s messages.ActorState) { r.state.Store(int32(s)) }

func (r *record) tell(kind, detail string) {
	r.registry.onEvent(Event{Kind: kind, ID: r.pid.GetId(), Actor: r.kind, Detail: detail})
}

// leave notices that the actor is stopping, and forgets it once it, and so all its children, is gone.
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

// RecordFailure notes a crash, as a supervisor saw it.
func (r *Registry) RecordFailure(id string, reason, message any, at time.Time) {
	r.mu.Lock()
	rec, ok := r.records[id]
	r.mu.Unlock()
	if !ok {
		return
	}
	f := &messages.ActorFailure{Reason: fmt.Sprint(reason), Message: fmt.Sprintf("%T", message), Time: timestamppb.New(at)}
	rec.failure.Store(f)
	rec.tell("actor.failed", f.GetReason()+" on "+f.GetMessage())
}
