package link

import (
	"errors"
	"io"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"troupe/messages"
)

// service answers peers in remote's protocol.
type service struct {
	remote.UnimplementedRemotingServer
	link *Link
}

// inbound is the stream on which one peer writes to us.
type inbound struct {
	stream   remote.Remoting_ReceiveServer
	link     *Link
	peer     string // address that the peer gave
	expelled chan struct{}
}

// Receive reads what one peer writes.
func (s service) Receive(stream remote.Remoting_ReceiveServer) error {
	in := &inbound{stream: stream, link: s.link, expelled: make(chan struct{})}
	done := make(chan error, 1)
	s.link.running.Go(func() {
		err := in.read()
		in.part(err)
		done <- err
	})
	select {
	case err := <-done:
		if errors.Is(err, io.EOF) { // by which the peer knows that we have read everything
			return nil
		}
		return err
	case <-in.expelled: // which also ends what read waits for
		return status.Error(codes.Unavailable, "you have left the cluster")
	}
}

// expel ends the stream of a peer that has left. It is called once, by whoever took it from the roster.
func (in *inbound) expel() { close(in.expelled) }

// part forgets the stream, and why it ended. Where it broke, answers and the deaths of actors may be lost with it.
func (in *inbound) part(err error) {
	if !in.link.roster.part(in) {
		return
	}
	if !errors.Is(err, io.EOF) || !in.link.roster.reachable(in.peer) {
		in.link.terminate(in.peer)
	}
}

// read returns why the stream ended: io.EOF where the peer has written everything.
func (in *inbound) read() error {
	for {
		m, err := in.stream.Recv()
		if err != nil {
			return err
		}
		switch t := m.MessageType.(type) {
		case *remote.RemoteMessage_ConnectRequest:
			address := t.ConnectRequest.GetServerConnection().GetAddress()
			if address == "" || in.peer != "" {
				return status.Error(codes.InvalidArgument, "a node gives its address once")
			}
			if err := in.greet(address); err != nil {
				return err
			}
		case *remote.RemoteMessage_MessageBatch:
			if in.peer == "" {
				return status.Error(codes.InvalidArgument, "a node gives its address first")
			}
			in.deliver(t.MessageBatch)
		}
	}
}

func (in *inbound) greet(address string) error {
	in.peer = address
	in.link.roster.greet(in, address)
	return in.stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectResponse{
		ConnectResponse: &remote.ConnectResponse{MemberId: in.link.cfg.System.ID},
	}})
}

func (in *inbound) deliver(batch *remote.MessageBatch) {
	for _, e := range batch.Envelopes {
		l, err := open(batch, e, in.link.cfg.System.Address())
		if err != nil {
			in.link.refused.Warn().Err(err).Str("node", in.peer).Msg("dropped what a node sent")
			continue
		}
		in.hand(l)
	}
}

// hand gives a message to its actor, or refuses it.
func (in *inbound) hand(l letter) {
	sys := in.link.cfg.System
	message, reason, err := decode(l.kind, l.data, in.peer, sys.Address())
	if err != nil {
		in.refuse(l, reason, err)
		return
	}
	switch m := message.(type) {
	case *actor.Terminated: // of whom nobody watches any more: the watcher was told that the address is lost
		if who := m.GetWho(); who.GetAddress() == in.peer && in.link.guard.watches.remove(who, watchOf(l.target, who)) {
			in.link.guard.terminated(l.target, who, m.GetWhy())
		}
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
}

// watch passes Watch and Unwatch on. One for an actor that is gone is answered: its watcher would wait for ever.
func (in *inbound) watch(target, watcher *actor.PID, message actor.SystemMessage) {
	if watcher.GetAddress() != in.peer {
		in.link.refused.Warn().Str("node", in.peer).Msg("dropped a watch for another node's actor")
		return
	}
	if ref, ok := in.link.cfg.System.ProcessRegistry.GetLocal(target.Id); ok {
		if _, ok := message.(*actor.Watch); ok {
			in.link.watchers.add(watcher, watchOf(watcher, target))
		} else {
			in.link.watchers.remove(watcher, watchOf(watcher, target))
		}
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
