package session

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Client is the call that a gateway holds open for a session. It outlives the session and records
// the delivered output. One session at a time uses it.
type Client interface {
	// Output returns the tokens delivered so far.
	Output() []uint32
	// Deliver appends tokens to the output, and ends it if finish is set. cached is the number of
	// prompt tokens that needed no prefill.
	Deliver(tokens []uint32, logprobs []*messages.TokenLogprobs, cached uint32, finish messages.FinishReason)
	Fail(refused *messages.Refused)
}

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	RequestID string
	Sequence  *messages.SequenceSpec
	Client    Client
	Router    *actor.PID // of this node
	Log       zerolog.Logger
}

// Props returns the props of a session.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	var revision string
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &session{Config: cfg, incarnation: incarnation, revision: &revision}
	})
}

const (
	checkInterval  = 400 * time.Millisecond  // between checks of a silent replica
	silenceTimeout = 1200 * time.Millisecond // then the session abandons the replica
	minRetryDelay  = 20 * time.Millisecond   // before the next route request
	// maxInterruptions is the number of interruptions without a new token in between that a
	// sequence survives. After more, it is assumed to crash its replicas.
	maxInterruptions = 8
)

type session struct {
	Config
	incarnation uint64
	revision    *string // digest of the files that computed the output; shared by all incarnations

	replica       *assignedReplica // nil while routing
	otherReplica  *actor.PID       // also sends tokens, or is about to take over; nil: none
	otherSince    time.Time        // when otherReplica was set
	attempt       uint64           // counts routes and submissions; stale timers have a lower one
	interruptions int              // since the last new token
	abandoned     *assignedReplica // a silent replica that may still run the sequence; nil: none
	avoid         []string         // replicas lost since the last new token
	cause         string           // of the next route request, for its explanation
	lastHeard     time.Time
	timer         *time.Timer // for a check or a retry
	timerDue      time.Time   // when timer fires
}

// assignedReplica is the replica that serves the session's sequence.
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

// route requests a replica from the router.
func (s *session) route(ctx actor.Context) {
	s.detach(ctx)
	s.attempt++
	ctx.Request(s.Router, &messages.RouteSequence{
		RequestId: s.RequestID, Model: s.Sequence.GetModel(), Adapter: s.Sequence.GetAdapter(), Avoid: s.avoid,
		Prompt: slices.Concat(s.Sequence.GetPrompt(), s.Client.Output()), AdapterSpec: s.Sequence.GetAdapterSpec(),
		Cause:     s.cause,
		CacheSalt: s.Sequence.GetCacheSalt(), RevisionDigest: s.outputRevision(),
	})
	s.setTimer(ctx, checkInterval, &retry{s.incarnation, s.attempt}) // in case the request is lost
}

// outputRevision returns the digest of the files that computed the output. Only replicas with the
// same files may continue it. It is empty while there is no output.
func (s *session) outputRevision() string {
	if len(s.Client.Output()) == 0 {
		return ""
	}
	return *s.revision
}

// routeAfter requests a replica after a delay.
func (s *session) routeAfter(ctx actor.Context, d time.Duration) {
	s.detach(ctx)
	s.attempt++
	s.setTimer(ctx, max(d, minRetryDelay), &retry{s.incarnation, s.attempt})
}

// detach drops the replica. It must unwatch: a replica keeps its watchers until then, even after
// they stopped.
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

// setTimer replaces the pending timer.
func (s *session) setTimer(ctx actor.Context, d time.Duration, note any) {
	s.stopTimer()
	s.timer, s.timerDue = supervise.After(ctx, d, note), time.Now().Add(d)
}

func (s *session) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// stop ends the session.
func (s *session) stop(ctx actor.Context) {
	s.cancelOther(ctx)
	s.stopTimer()
	ctx.Stop(ctx.Self())
}
