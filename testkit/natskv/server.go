// Package natskv is the key-value store of one NATS server in memory, as far as cluster/bucket uses
// it. A table of cases in its test checks that it behaves as nats-server does.
//
// Everything happens in timers of a supervise.Runtime, so a simulation decides in which order
// requests reach the server and answers, changes and watches reach the clients. It can delay them,
// lose answers, cut clients off, and stop the server.
//
// These differ from a real server, which gives fewer guarantees here than the product uses: a
// client that loses its connection loses its watches; and a server that is stalled answers nothing,
// as one without a majority does. Keys have no TTL, since the product sets none (see cluster/members).
package natskv

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Server is a server with its streams.
type Server struct {
	now func() time.Time

	mu      sync.Mutex // not held while a client is called
	streams map[string]*stream
	clients []*Client
	stalled bool
	written func(Write) // may be nil
}

// Write is a write of a value, or a deletion, which has no data.
type Write struct {
	Client        *Client
	Bucket, Key   string
	Before, After []byte
}

// OnWrite calls f after each write, before its client has the answer. f must not use the server.
func (s *Server) OnWrite(f func(Write)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = f
}

// stream is the stream behind a bucket. It keeps the last message of each subject.
type stream struct {
	cfg     jetstream.StreamConfig
	created time.Time
	last    uint64
	msgs    map[string]*jetstream.RawStreamMsg // by subject
	watches []*watcher
}

// NewServer returns a server without buckets.
func NewServer(now func() time.Time) *Server {
	return &Server{now: now, streams: make(map[string]*stream)}
}

// Stall makes the server ignore all requests, or answer them again. Its clients stay connected.
func (s *Server) Stall(stalled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = stalled
}

// DeleteBucket deletes a bucket, as an operator does.
func (s *Server) DeleteBucket(bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, "KV_"+bucket)
}

// RollBack removes the last revisions of a bucket, as a loss of power does with those that are not
// on disk yet. Earlier values of their keys are lost too. The clients lose their connections, and
// connect again.
func (s *Server) RollBack(bucket string, revisions uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams["KV_"+bucket]
	if st == nil {
		return
	}
	st.last -= min(revisions, st.last-1)
	maps.DeleteFunc(st.msgs, func(_ string, m *jetstream.RawStreamMsg) bool { return m.Sequence > st.last })
	for _, c := range s.clients {
		if c.connected {
			c.disconnect()
			c.reconnectSoon()
		}
	}
}

// The methods below handle requests. The caller holds mu.

func (s *Server) find(name string) (*stream, error) {
	if st := s.streams[name]; st != nil {
		return st, nil
	}
	return nil, jetstream.ErrStreamNotFound
}

func (st *stream) info() *jetstream.StreamInfo {
	first := st.last + 1
	for _, m := range st.msgs {
		first = min(first, m.Sequence)
	}
	return &jetstream.StreamInfo{Config: st.cfg, Created: st.created,
		State: jetstream.StreamState{Msgs: uint64(len(st.msgs)), FirstSeq: first, LastSeq: st.last}}
}

func (s *Server) create(cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	if old := s.streams[cfg.Name]; old != nil {
		if !reflect.DeepEqual(old.cfg, cfg) {
			return nil, jetstream.ErrStreamNameAlreadyInUse
		}
		return old.info(), nil
	}
	if cfg.Replicas > 1 {
		return nil, &jetstream.APIError{Code: 500, ErrorCode: 10074,
			Description: "replicas > 1 not supported in non-clustered mode"}
	}
	st := &stream{cfg: cfg, created: s.now(), last: max(cfg.FirstSeq, 1) - 1,
		msgs: make(map[string]*jetstream.RawStreamMsg)}
	s.streams[cfg.Name] = st
	return st.info(), nil
}

func (s *Server) update(cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	st, err := s.find(cfg.Name)
	if err != nil {
		return nil, err
	}
	st.cfg = cfg
	return st.info(), nil
}

func (s *Server) delete(name string) (struct{}, error) {
	_, err := s.find(name)
	delete(s.streams, name)
	return struct{}{}, err
}

// listing is the answer to a request for the subjects of a stream.
type listing struct {
	subjects []string
	last     uint64
}

func (s *Server) list(name string) (listing, error) {
	st, err := s.find(name)
	if err != nil {
		return listing{}, err
	}
	return listing{slices.Sorted(maps.Keys(st.msgs)), st.last}, nil
}

func (s *Server) lastMsg(name, subject string) (*jetstream.RawStreamMsg, error) {
	st, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if m := st.msgs[subject]; m != nil {
		return m, nil
	}
	return nil, jetstream.ErrMsgNotFound
}

func (s *Server) purge(name string, next uint64) (struct{}, error) {
	st, err := s.find(name)
	if err != nil {
		return struct{}{}, err
	}
	maps.DeleteFunc(st.msgs, func(_ string, m *jetstream.RawStreamMsg) bool { return m.Sequence < next })
	st.last = max(st.last, next-1)
	return struct{}{}, nil
}

// anyRevision is the expected revision of a write that does not depend on what is stored.
const anyRevision = ^uint64(0)

// write stores a message and sends it to those who watch it.
func (s *Server) write(name, subject string, header nats.Header, data []byte, over uint64) (uint64, error) {
	st := s.streams[name]
	if st == nil {
		return 0, jetstream.ErrNoStreamResponse
	}
	var before uint64
	if old := st.msgs[subject]; old != nil {
		before = old.Sequence
	}
	if over != anyRevision && over != before {
		return 0, &jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence,
			Description: fmt.Sprintf("wrong last sequence: %d", before)}
	}
	st.last++
	m := &jetstream.RawStreamMsg{Subject: subject, Sequence: st.last, Header: header, Data: data, Time: s.now()}
	st.msgs[subject] = m
	for _, w := range st.watches {
		w.send(m)
	}
	if r := st.cfg.RePublish; r != nil {
		s.republish(st, m, before, strings.TrimSuffix(r.Source, ">"), strings.TrimSuffix(r.Destination, ">"))
	}
	return st.last, nil
}

// republish sends a message to the subscribers of the republished subject.
func (s *Server) republish(st *stream, m *jetstream.RawStreamMsg, before uint64, from, to string) {
	header := nats.Header{}
	maps.Copy(header, m.Header)
	header.Set("Nats-Stream", st.cfg.Name)
	header.Set("Nats-Subject", m.Subject)
	header.Set("Nats-Sequence", fmt.Sprint(m.Sequence))
	header.Set("Nats-Last-Sequence", fmt.Sprint(before))
	msg := &nats.Msg{Subject: to + strings.TrimPrefix(m.Subject, from), Header: header, Data: m.Data}
	for _, c := range s.clients {
		for _, sub := range c.subscriptions {
			if strings.HasPrefix(msg.Subject, sub.prefix) {
				sub.flow.send(func() { sub.receive(msg) })
			}
		}
	}
}

// watch adds a watch and sends it the last messages, in the order in which they were written.
func (s *Server) watch(name string, w *watcher) error {
	st, err := s.find(name)
	if err != nil {
		return err
	}
	all := slices.SortedFunc(maps.Values(st.msgs), func(a, b *jetstream.RawStreamMsg) int {
		return int(a.Sequence) - int(b.Sequence)
	})
	all = slices.DeleteFunc(all, func(m *jetstream.RawStreamMsg) bool { return !w.matches(m) })
	for _, m := range all {
		w.send(m)
	}
	w.sendEnd()
	st.watches = append(st.watches, w)
	return nil
}
