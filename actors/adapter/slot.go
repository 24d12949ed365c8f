package adapter

import (
	"context"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
)

// SlotConfig is fixed for the life of a slot and shared by its restarts.
type SlotConfig struct {
	Store Store
	Key   string
	File  engine.AdapterFile
	Pages []uint32
	Keep  bool // also cache the adapter in host memory
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
	cancel      context.CancelFunc
	copying     <-chan struct{} // closed when the copy has ended
}

// copied is a message to self.
type copied struct {
	incarnation uint64
	err         error
}

func (s *slot) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		s.onEnding()
	case *copied:
		s.onCopied(ctx, msg)
	default:
		supervise.Unknown(ctx, "slot")
	}
}

// onEnding blocks until the copy has ended, since the pages may be reused next.
func (s *slot) onEnding() {
	if s.copying != nil { // nil before Started
		s.cancel()
		<-s.copying
	}
}

func (s *slot) onStarted(ctx actor.Context) {
	var life context.Context
	life, s.cancel = context.WithCancel(context.Background())
	cfg, incarnation := s.SlotConfig, s.incarnation
	s.copying = supervise.Job(ctx, life,
		func(life context.Context) (struct{}, error) {
			return struct{}{}, cfg.Store.Load(life, cfg.Key, cfg.File, cfg.Pages, cfg.Keep)
		},
		func(_ struct{}, err error) any { return &copied{incarnation, err} })
}

func (s *slot) onCopied(ctx actor.Context, msg *copied) {
	if msg.incarnation != s.incarnation {
		return
	}
	var crash *supervise.PanicError
	if errors.As(msg.err, &crash) {
		panic(msg.err)
	}
	done := &messages.SlotLoaded{Adapter: s.Key}
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
