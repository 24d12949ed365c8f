package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/reply"
)

// Config describes a service.
type Config struct {
	Name, Description string
	Version           string // semantic version, as the protocol requires
	Metadata          map[string]string
	Guard             *reply.Guard
	// TrustAccounts takes the client's identity from the header Nats-Request-Info; see Sender.
	TrustAccounts bool
	Log           zerolog.Logger
	Runtime       supervise.Runtime // nil: supervise.System
}

// Service is a running service. It is safe for concurrent use.
type Service struct {
	Config
	conn    *nats.Conn
	id      string
	started time.Time

	mu        sync.Mutex
	endpoints []*endpoint
	subs      []*nats.Subscription // of the endpoints, and of the subjects of $SRV
}

// Start subscribes to the $SRV subjects for discovery.
func Start(conn *nats.Conn, cfg Config) (*Service, error) {
	cfg.Runtime = supervise.OrSystem(cfg.Runtime)
	s := &Service{Config: cfg, conn: conn, id: cfg.Runtime.ID(), started: cfg.Runtime.Now().UTC()}
	s.Metadata = maps.Clone(cfg.Metadata)
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	ping := func() any { return micro.Ping{ServiceIdentity: s.identity(), Type: micro.PingResponseType} }
	err := s.describe(micro.PingVerb, ping)
	if err == nil {
		err = s.describe(micro.InfoVerb, func() any { return s.Info() })
	}
	if err == nil {
		err = s.describe(micro.StatsVerb, func() any { return s.Stats() })
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// describe serves a verb of $SRV, for all services, for this name and for this instance.
func (s *Service) describe(verb micro.Verb, answer func() any) error {
	handler := func(r *Request) {
		body, err := json.Marshal(answer())
		if err == nil {
			err = r.Respond(body)
		}
		if err != nil && !errors.Is(err, nats.ErrMsgNoReply) {
			s.Log.Debug().Err(err).Str("subject", r.Subject()).Msg("service not described")
		}
	}
	for _, id := range [][2]string{{}, {s.Name}, {s.Name, s.id}} {
		subject, err := micro.ControlSubject(verb, id[0], id[1])
		if err != nil {
			return err
		}
		sub, err := s.conn.Subscribe(subject, s.dispatch(nil, handler))
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		s.keep(sub)
	}
	return nil
}

// Add serves an endpoint, sharing its requests with other services of this name.
func (s *Service) Add(name, subject, description string, handler Handler) error {
	e := &endpoint{info: micro.EndpointInfo{
		Name: name, Subject: subject, QueueGroup: micro.DefaultQueueGroup,
		Metadata: map[string]string{"description": description},
	}}
	sub, err := s.conn.QueueSubscribe(subject, micro.DefaultQueueGroup, s.dispatch(e, handler))
	if err != nil {
		return fmt.Errorf("endpoint %s: subscribe to %s: %w", name, subject, err)
	}
	s.keep(sub)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = append(s.endpoints, e)
	return nil
}

func (s *Service) keep(sub *nats.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(s.subs, sub)
}

// dispatch is the only path from a message to a handler. If a handler panics, it answers with an
// error.
func (s *Service) dispatch(e *endpoint, handler Handler) nats.MsgHandler {
	return func(msg *nats.Msg) {
		if !s.Guard.Admit(msg.Subject, msg.Reply) {
			return
		}
		r := &Request{msg: msg, limit: s.conn.MaxPayload(), endpoint: e, sender: senderOf(msg, s.TrustAccounts)}
		began := s.Runtime.Now()
		defer func() {
			if p := recover(); p != nil {
				s.Log.Error().Interface("panic", p).Str("subject", msg.Subject).Msg("request handler crashed")
				_ = r.Respond(nil, micro.WithHeaders(micro.Headers{ // the client may have disconnected
					micro.ErrorHeader: {"internal error"}, micro.ErrorCodeHeader: {"500"},
				}))
			}
			if e != nil {
				e.handled(s.Runtime.Now().Sub(began))
			}
		}()
		handler(r)
	}
}

// Withdraw ends the subscriptions of the endpoints whose subjects leaving selects. Other services
// of this name continue to serve them. Requests that have arrived are handled.
func (s *Service) Withdraw(leaving func(subject string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed []error
	gone := map[string]bool{}
	s.endpoints = slices.DeleteFunc(s.endpoints, func(e *endpoint) bool {
		gone[e.info.Subject] = leaving(e.info.Subject)
		return gone[e.info.Subject]
	})
	s.subs = slices.DeleteFunc(s.subs, func(sub *nats.Subscription) bool {
		if gone[sub.Subject] {
			failed = append(failed, drained(sub))
		}
		return gone[sub.Subject]
	})
	return errors.Join(failed...)
}

// drained ends a subscription once the requests that have arrived are handled.
func drained(sub *nats.Subscription) error {
	if err := sub.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("drain subscription to %s: %w", sub.Subject, err)
	}
	return nil
}

// Stop handles the requests that have arrived and accepts no more.
func (s *Service) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed []error
	for _, sub := range s.subs {
		failed = append(failed, drained(sub))
	}
	s.subs, s.endpoints = nil, nil
	return errors.Join(failed...)
}
