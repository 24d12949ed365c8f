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

// service implements the server side of remote's protocol.
type service struct {
	remote.UnimplementedRemotingServer
	link *Link
}

// inbound is the stream on which one peer sends to us.
type inbound struct {
	stream       remote.Remoting_ReceiveServer
	link         *Link
	peer         string // address that the peer announced
	disconnected chan struct{}
}

// Receive reads messages from one peer until the stream ends.
func (s service) Receive(stream remote.Remoting_ReceiveServer) error {
	in := &inbound{stream: stream, link: s.link, disconnected: make(chan struct{})}
	done := make(chan error, 1)
	s.link.goRun(func() {
		err := in.read()
		in.ended(err)
		done <- err
	})
	select {
	case err := <-done:
		if errors.Is(err, io.EOF) { // a clean end: the peer knows that we have read everything
			return nil
		}
		return err
	case <-in.disconnected: // returning ends the stream, and thereby read
		return status.Error(codes.Unavailable, "this node has left the cluster")
	}
}

// disconnect ends the stream of a peer that has left. Call it once, after the stream was removed
// from peers.
func (in *inbound) disconnect() { close(in.disconnected) }

// ended removes the stream. If it broke, replies and deaths of actors may be lost with it, so the
// peer's address is reported as lost.
func (in *inbound) ended(err error) {
	if !in.link.peers.removeStream(in) {
		return
	}
	if !errors.Is(err, io.EOF) || !in.link.peers.reachable(in.peer) {
		in.link.terminate(in.peer)
	}
}

// read returns why the stream ended: io.EOF if the peer has closed it cleanly.
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
				return status.Error(codes.InvalidArgument, "a node announces its address once")
			}
			if err := in.handshake(address); err != nil {
				return err
			}
		case *remote.RemoteMessage_MessageBatch:
			if in.peer == "" {
				return status.Error(codes.InvalidArgument, "a node announces its address first")
			}
			in.deliver(t.MessageBatch)
		}
	}
}

func (in *inbound) handshake(address string) error {
	in.peer = address
	in.link.peers.addStream(in)
	return in.stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectResponse{
		ConnectResponse: &remote.ConnectResponse{MemberId: in.link.cfg.System.ID},
	}})
}

func (in *inbound) deliver(batch *remote.MessageBatch) {
	for _, e := range batch.Envelopes {
		l, err := unpack(batch, e, in.link.cfg.System.Address())
		if err != nil {
			in.link.refused.Warn().Err(err).Str("node", in.peer).Msg("dropped malformed message")
			continue
		}
		in.dispatch(l)
	}
}

// dispatch delivers a message to its actor, or refuses it.
func (in *inbound) dispatch(l envelope) {
	sys := in.link.cfg.System
	message, reason, err := decode(l.kind, l.data, in.peer, sys.Address())
	if err != nil {
		in.refuse(l, reason, err)
		return
	}
	switch m := message.(type) {
	case *actor.Terminated: // without a watch, the watcher already knows that the address is lost
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

// watch forwards Watch and Unwatch to an actor. A Watch on an actor that does not exist is answered
// at once.
func (in *inbound) watch(target, watcher *actor.PID, message actor.SystemMessage) {
	if watcher.GetAddress() != in.peer {
		in.link.refused.Warn().Str("node", in.peer).Msg("dropped watch for an actor of another node")
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

func (in *inbound) refuse(l envelope, reason messages.Reason, err error) {
	in.link.refused.Warn().Err(err).Str("node", in.peer).Stringer("to", l.target).Msg("refused message")
	if l.sender != nil {
		in.link.cfg.System.Root.Send(l.sender, &messages.Refused{Reason: reason, Detail: err.Error()})
	}
}
