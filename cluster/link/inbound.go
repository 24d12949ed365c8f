package link

import (
	"errors"
	"fmt"
	"io"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"troupe/messages"
)

// inbound is the stream on which one peer writes to us. It delivers the messages of users itself; remote's reader gets what
// touches its own tables, and nothing that it would fall over.
type inbound struct {
	grpc.ServerStream
	link     *Link
	peer     string // address that the peer gave
	err      error  // what ended it
	expelled chan struct{}
}

// accept is a server interceptor.
func (l *Link) accept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	select {
	case <-l.ready:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	in := &inbound{ServerStream: stream, link: l, expelled: make(chan struct{})}
	done := make(chan error, 1)
	l.running.Go(func() {
		err := handler(srv, in)
		in.part()
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-in.expelled: // which also ends what the handler waits for
		return status.Error(codes.Unavailable, "you have left the cluster")
	}
}

// expel ends the stream of a peer that has left. It is called once, by whoever took it from the roster.
func (in *inbound) expel() { close(in.expelled) }

// part forgets the stream. Where it broke, answers and the deaths of actors may be lost with it.
func (in *inbound) part() {
	if !in.link.roster.part(in) {
		return
	}
	if !errors.Is(in.err, io.EOF) || !in.link.roster.reachable(in.peer) {
		in.link.terminate(in.peer)
	}
}

// RecvMsg returns what remote is to see.
func (in *inbound) RecvMsg(m any) error {
	for {
		if in.err = in.ServerStream.RecvMsg(m); in.err != nil {
			return in.err
		}
		switch t := m.(*remote.RemoteMessage).MessageType.(type) {
		case *remote.RemoteMessage_ConnectRequest:
			address := t.ConnectRequest.GetServerConnection().GetAddress()
			if address == "" || in.peer != "" {
				in.err = status.Error(codes.InvalidArgument, "a node gives its address once")
				return in.err
			}
			in.peer = address
			in.link.roster.greet(in, address)
			return nil
		case *remote.RemoteMessage_MessageBatch:
			if in.peer == "" {
				in.err = status.Error(codes.InvalidArgument, "a node gives its address first")
				return in.err
			}
			if in.deliver(t.MessageBatch); len(t.MessageBatch.Envelopes) > 0 {
				return nil
			}
		}
	}
}

// deliver leaves in the batch what is for remote.
func (in *inbound) deliver(batch *remote.MessageBatch) {
	rest := batch.Envelopes[:0]
	for _, e := range batch.Envelopes {
		l, err := open(batch, e, in.link.cfg.System.Address())
		if err != nil {
			in.link.refused.Warn().Err(err).Str("node", in.peer).Msg("dropped what a node sent")
			continue
		}
		if in.hand(l) {
			rest = append(rest, e)
		}
	}
	batch.Envelopes = rest
}

// hand gives a message to its actor, or refuses it. It reports whether it is one for remote.
func (in *inbound) hand(l letter) (forRemote bool) {
	sys := in.link.cfg.System
	message, reason, err := decode(l.kind, l.data, in.peer, sys.Address())
	if err != nil {
		in.refuse(l, reason, err)
		return false
	}
	switch m := message.(type) {
	case *actor.Terminated: // remote keeps the list of who watches there
		return m.GetWho().GetAddress() == in.peer
	case *actor.Watch:
		in.watch(l.target, m.GetWatcher(), m)
	case *actor.Unwatch:
		in.watch(l.target, m.GetWatcher(), m)
	default:
		if isFuture(l.target.Id) {
			in.link.pending.take(l.target.Id)
		}
		sys.Root.Send(l.target, &actor.MessageEnvelope{Header: l.header, Message: message, Sender: l.sender})
	}
	return false
}

// watch passes Watch and Unwatch on. Remote drops those for an actor that is gone, and its watcher would wait for ever.
func (in *inbound) watch(target, watcher *actor.PID, message actor.SystemMessage) {
	if watcher.GetAddress() != in.peer {
		in.link.refused.Warn().Str("node", in.peer).Msg("dropped a watch for another node's actor")
		return
	}
	if ref, ok := in.link.cfg.System.ProcessRegistry.GetLocal(target.Id); ok {
		ref.SendSystemMessage(target, message)
	} else if _, ok := message.(*actor.Watch); ok {
		in.link.guard.SendSystemMessage(watcher, &actor.Terminated{Who: target, Why: actor.TerminatedReason_NotFound})
	}
}

func (in *inbound) refuse(l letter, reason messages.Reason, err error) {
	in.link.refused.Warn().Err(err).Str("node", in.peer).Stringer("to", l.target).Msg("refused what a node sent")
	if l.sender != nil {
		in.link.cfg.System.Root.Send(l.sender, &messages.Refused{Reason: reason, Detail: err.Error()})
	}
}

// letter is one message of a batch.
type letter struct {
	kind           string // full name of its type
	data           []byte
	target, sender *actor.PID // sender may be nil
	header         map[string]string
}

// open checks every index, which remote does not.
func open(batch *remote.MessageBatch, e *remote.MessageEnvelope, address string) (letter, error) {
	switch {
	case e == nil || e.SerializerId != 0:
		return letter{}, errors.New("it is not protobuf")
	case e.TypeId < 0 || int(e.TypeId) >= len(batch.TypeNames):
		return letter{}, fmt.Errorf("it has type %d of %d", e.TypeId, len(batch.TypeNames))
	case e.Target < 0 || int(e.Target) >= len(batch.Targets):
		return letter{}, fmt.Errorf("it is for target %d of %d", e.Target, len(batch.Targets))
	case e.Sender < 0 || int(e.Sender) > len(batch.Senders):
		return letter{}, fmt.Errorf("it is from sender %d of %d", e.Sender, len(batch.Senders))
	}
	l := letter{kind: batch.TypeNames[e.TypeId], data: e.MessageData, header: e.GetMessageHeader().GetHeaderData()}
	l.target = &actor.PID{Address: address, Id: batch.Targets[e.Target], RequestId: e.TargetRequestId}
	if e.Sender > 0 {
		from := batch.Senders[e.Sender-1]
		l.sender = &actor.PID{Address: from.GetAddress(), Id: from.GetId(), RequestId: e.SenderRequestId}
	}
	return l, nil
}
