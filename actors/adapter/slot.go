package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/hostcache"
	"troupe/core/lora"
	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
)

// SlotConfig is fixed for the life of a slot and shared by its restarts.
type SlotConfig struct {
	Store Store
	Name  hostcache.Name
	File  engine.AdapterFile
	Pages []uint32
	Path  string // of the adapter's folder
	// HostCache is the actor of the copies in host memory; nil: the adapter is read from its files, if it is
	// not on the device.
	HostCache *actor.PID
}

// SlotProps returns the props of a slot.
func SlotProps(cfg SlotConfig) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &slot{SlotConfig: cfg, incarnation: incarnation}
	})
}

type slot struct {
	SlotConfig
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	request     string          // to the host cache that waits for its answer; empty: none
	asked       int             // number of times that the request was sent
	waiting     bool            // the host cache has answered that another load fills the image
	copying     <-chan struct{} // closed when the copy has ended; nil: it has not begun
}

const (
	// askTimeout is the time in which the host cache must answer.
	askTimeout = time.Second
	// maxAsked is the number of times that a request is sent while another load fills the image. Then the
	// slot reads the files itself.
	maxAsked = 5
)

// Messages to self.
type (
	copied struct {
		incarnation uint64
		from        lora.Tier
		err         error
	}
	askTimedOut struct{ incarnation uint64 }
)

func (s *slot) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		s.onEnding(ctx)
	case *messages.UseImageResult:
		s.onImage(ctx, msg)
	case *askTimedOut:
		s.onAskTimedOut(ctx, msg)
	case *copied:
		s.onCopied(ctx, msg)
	default:
		supervise.Unknown(ctx, "slot")
	}
}

// onEnding blocks until the copy has ended, since the pages may be reused next.
func (s *slot) onEnding(ctx actor.Context) {
	if s.cancel != nil { // nil before Started
		s.cancel()
	}
	switch {
	case s.copying != nil:
		<-s.copying
	case s.request != "": // the copy has not begun
		ctx.Send(s.HostCache, &messages.EndImageUse{RequestId: s.request})
	}
}

func (s *slot) onStarted(ctx actor.Context) {
	s.life, s.cancel = context.WithCancel(context.Background())
	if s.HostCache == nil {
		s.load(ctx, "")
		return
	}
	s.request = supervise.RuntimeOf(ctx.ActorSystem()).ID()
	s.ask(ctx)
}

// ask asks the host cache for a ticket.
func (s *slot) ask(ctx actor.Context) {
	s.asked++
	s.waiting = false
	ctx.Request(s.HostCache, &messages.UseImage{
		RequestId: s.request, Model: s.Name.Model, Adapter: s.Name.Adapter, Layout: s.Name.Layout, Path: s.Path,
		Bytes: uint64(s.File.Layout.Bytes()),
	})
	supervise.After(ctx, askTimeout, &askTimedOut{s.incarnation})
}

func (s *slot) onImage(ctx actor.Context, msg *messages.UseImageResult) {
	switch {
	case msg.GetRequestId() != s.request || s.copying != nil: // late
	case msg.GetWaiting():
		s.waiting = true
	default:
		s.load(ctx, msg.GetTicket())
	}
}

// onAskTimedOut asks again if the host cache has answered, and loads the adapter without it otherwise.
func (s *slot) onAskTimedOut(ctx actor.Context, msg *askTimedOut) {
	switch {
	case msg.incarnation != s.incarnation || s.copying != nil:
	case s.waiting && s.asked < maxAsked:
		s.ask(ctx)
	default:
		ctx.Send(s.HostCache, &messages.EndImageUse{RequestId: s.request})
		s.load(ctx, "")
	}
}

// load starts the copy. The ticket is for the image in the host cache; empty: the files are read.
func (s *slot) load(ctx actor.Context, ticket string) {
	cfg, incarnation := s.SlotConfig, s.incarnation
	s.request = ""
	s.copying = supervise.Job(ctx, s.life,
		func(life context.Context) (lora.Tier, error) {
			return cfg.Store.Load(life, cfg.Name.Adapter, cfg.File, cfg.Pages, ticket)
		},
		func(from lora.Tier, err error) any { return &copied{incarnation, from, err} })
}

func (s *slot) onCopied(ctx actor.Context, msg *copied) {
	if msg.incarnation != s.incarnation {
		return
	}
	var crash *supervise.PanicError
	if errors.As(msg.err, &crash) {
		panic(msg.err)
	}
	done := &messages.SlotLoaded{Adapter: s.Name.Adapter, Source: locations[msg.from]}
	if msg.err != nil {
		done.Refused = &messages.Refused{Reason: reasonOf(msg.err), Detail: msg.err.Error()}
	}
	ctx.Request(ctx.Parent(), done)
}

func reasonOf(err error) messages.Reason {
	switch {
	case errors.Is(err, cuda.ErrOutOfMemory):
		return messages.Reason_REASON_NO_MEMORY
	case errors.Is(err, cuda.ErrDeviceLost):
		return messages.Reason_REASON_QUARANTINED
	}
	return messages.Reason_REASON_LOAD_FAILED
}
