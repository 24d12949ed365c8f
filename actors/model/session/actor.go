package session

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Client is the far end of a session: the call that a gateway holds open. It outlives the session and is the record
// of what the client has seen. It is used by one session at a time.
type Client interface {
	// Output returns the tokens delivered so far.
	Output() []uint32
	// Deliver appends tokens to the output, and with a reason ends it. Cached is how many prompt tokens needed no prefill.
	Deliver(tokens []uint32, logprobs []*messages.TokenLogprobs, cached uint32, finish messages.FinishReason)
	Fail(refused *messages.Refused)
}

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	RequestID string
	Sequence  *messages.SequenceSpec
	Client    Client
	Router    *actor.PID // of this node: knows the replicas
	Log       zerolog.Logger
}

// Props returns the recipe for a session.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	var revision string
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &session{Config: cfg, incarnation: incarnation, revision: &revision}
	})
}

const (
	checkInterval  = 400 * time.Millisecond  // how often a session that hears nothing asks
	silenceTimeout = 1200 * time.Millisecond // a replica that says nothing, though asked, is given up
	minRetryDelay  = 20 * time.Millisecond   // before a route is asked for again
	// maxInterruptions interruptions without one new token between them end the sequence: it is what crashes the replicas.
	maxInterruptions = 8
)

type session struct {
	Config
	incarnation uint64
	revision    *string // digest of the files that compute the output; over all incarnations

	replica       *assignedReplica // nil while routing
	otherReplica  *actor.PID       // a replica that serves it too, or is just about to instead; nil: none
	otherSince    time.Time        // of other
	attempt       uint64           // counts routes and submissions; stale timers carry an older one
	interruptions int              // interruptions since the last new token
	abandoned     *assignedReplica // the replica that was given up and may go on; nil: none
	avoid         []string         // replicas that were lost, until there is a new token
	cause         string           // what became of the replica before, for people
	lastHeard     time.Time
	timer         *time.Timer // pending note: check, or retry
	timerDue      time.Time   // when it should come
}

// assignedReplica is the replica that a session was routed to.
type assignedReplica struct {
	name        string
	pid         *actor.PID
	incarnation uint64
}

// check and retry are notes to self.
type (
	check struct{ incarnation, attempt uint64 }
	retry struct{ incarnation, attempt uint64 }
)

func (s *session) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.route(ctx)
	case *actor.Restarting, *actor.Stopping:
		s.stopTimer()
		s.detach(ctx)
	case *messages.RouteSequenceResult:
		s.onRouted(ctx, msg)
	case *messages.SubmitSequenceResult:
		s.onSubmitted(ctx, msg)
	case *messages.TokensEmitted:
		s.onTokens(ctx, msg)
	case *messages.SequenceInterrupted:
		s.onInterrupted(ctx, msg)
	case *messages.SequenceStatus:
		s.onStatus(ctx, msg)
	case *messages.SequenceMoved:
		s.onMoved(ctx, msg)
	case *actor.Terminated:
		s.onReplicaLost(ctx, msg.GetWho())
	case *actor.DeadLetterResponse:
		s.onReplicaLost(ctx, msg.GetTarget())
	case *messages.CloseSession:
		s.onClose(ctx)
	case *check:
		s.onCheck(ctx, msg)
	case *retry:
		s.onRetry(ctx, msg)
	}
}

// route asks for a replica.
func (s *session) route(ctx actor.Context) {
	s.detach(ctx)
	s.attempt++
	ctx.Request(s.Router, &messages.RouteSequence{
		RequestId: s.RequestID, Model: s.Sequence.GetModel(), Adapter: s.Sequence.GetAdapter(), Avoid: s.avoid,
		Prompt: slices.Concat(s.Sequence.GetPrompt(), s.Client.Output()), AdapterSpec: s.Sequence.GetAdapterSpec(),
		Cause:     s.cause,
		CacheSalt: s.Sequence.GetCacheSalt(), RevisionDigest: s.outputRevision(),
	})
	s.setTimer(ctx, checkInterval, &retry{s.incarnation, s.attempt}) // a lost request is asked again
}

// begun is the digest of the files that the output was computed with: it goes on with no others. Without
// output there is none.
func (s *session) outputRevision() string {
	if len(s.Client.Output()) == 0 {
		return ""
	}
	return *s.revision
}

// routeAfter asks for a replica after a while.
func (s *session) routeAfter(ctx actor.Context, d time.Duration) {
	s.detach(ctx)
	s.attempt++
	s.setTimer(ctx, max(d, minRetryDelay), &retry{s.incarnation, s.attempt})
}

// leave forgets the replica. A replica keeps its watchers until they unwatch it, even those that
// have stopped.
func (s *session) detach(ctx actor.Context) {
	if s.replica != nil {
		ctx.Unwatch(s.replica.pid)
		s.replica = nil
	}
}

func (s *session) submit(ctx actor.Context, to *assignedReplica) {
	s.replica = to
	s.attempt++
	s.lastHeard = time.Now()
	ctx.Watch(to.pid)
	ctx.Request(to.pid, &messages.SubmitSequence{
		RequestId: s.RequestID, Sequence: s.Sequence, Output: s.Client.Output(), RevisionDigest: s.outputRevision(),
	})
	s.setTimer(ctx, checkInterval, &check{s.incarnation, s.attempt})
}

// arm replaces the pending note.
func (s *session) setTimer(ctx actor.Context, d time.Duration, note any) {
	s.stopTimer()
	s.timer, s.timerDue = supervise.After(ctx, d, note), time.Now().Add(d)
}

func (s *session) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// end is the last thing a session does.
func (s *session) stop(ctx actor.Context) {
	s.cancelOther(ctx)
	s.stopTimer()
	ctx.Stop(ctx.Self())
}
